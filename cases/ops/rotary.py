import torch

from evenbench import Bench, Work, case


def rotate(x, cos, sin):
    """Turn each pair (first half, second half) of the last axis by its angle: seven small kernels."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def bench(p, device):
    """Rotary position embedding of queries or keys."""
    x = torch.randn(p.length, p.heads, p.dim, dtype=getattr(torch, p.dtype), device=device)
    speeds = 10_000 ** (-torch.arange(0, p.dim, 2, device=device) / p.dim)
    angles = torch.arange(p.length, device=device)[:, None, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def reference():  # a product of complex numbers
        first, second = x.double().chunk(2, dim=-1)
        turned = torch.complex(first, second) * torch.complex(cos.double(), sin.double())
        return torch.cat((turned.real, turned.imag), dim=-1)

    return Bench(
        run=lambda: rotate(x, cos, sin),
        inputs={"x": x, "cos": cos, "sin": sin},
        reference=reference,
        work=Work(
            dtype=p.dtype, flops=3 * x.numel(), bytes_read=x.nbytes + cos.nbytes + sin.nbytes, bytes_written=x.nbytes
        ),
    )


small = case(
    "ops/rotary",
    params={"length": [32], "heads": [2], "dim": [64], "dtype": ["bfloat16"]},
    tags={"small"},
    rtol=2e-2,
    atol=4e-2,
)(bench)
large = case(
    "ops/rotary",
    params={"length": [1024, 4096], "heads": [16], "dim": [128], "dtype": ["bfloat16"]},
    tags={"pr"},
    rtol=2e-2,
    atol=4e-2,
)(bench)
