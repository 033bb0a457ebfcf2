"""What the cases with several implementations share; it declares no case."""


def gpu_only(device):
    """Raises ImportError on a CPU, which skips an implementation with this text as the reason."""
    if device.type == "cpu":
        raise ImportError("for GPUs only; on a CPU it would take a C++ compiler and half a minute")
