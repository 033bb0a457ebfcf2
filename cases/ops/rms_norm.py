import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """RMS norm over the last axis."""
    x = torch.randn(p.rows, p.cols, dtype=getattr(torch, p.dtype), device=device)
    weight = torch.randn(p.cols, dtype=x.dtype, device=device)

    def reference():
        wide = x.double()
        return wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()

    return Bench(
        run=lambda: torch.nn.functional.rms_norm(x, (p.cols,), weight, eps=1e-6),
        inputs={"x": x, "weight": weight},
        reference=reference,
        work=Work(  # square, add, scale, weight
            dtype=p.dtype, flops=4 * x.numel(), bytes_read=x.nbytes + weight.nbytes, bytes_written=x.nbytes
        ),
    )


small = case(
    "ops/rms_norm", params={"rows": [64], "cols": [256], "dtype": ["bfloat16"]}, tags={"small"}, rtol=2e-2, atol=1e-2
)(bench)
large = case(
    "ops/rms_norm",
    params={"rows": [4096], "cols": [4096, 8192], "dtype": ["bfloat16"]},
    tags={"pr"},
    rtol=2e-2,
    atol=1e-2,
)(bench)
