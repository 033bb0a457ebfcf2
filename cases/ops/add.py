import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Elementwise sum of two vectors."""
    x = torch.randn(p.n, dtype=getattr(torch, p.dtype), device=device)
    y = torch.randn_like(x)
    return Bench(
        run=lambda: x + y,
        inputs={"x": x, "y": y},
        reference=lambda: x.double() + y.double(),
        work=Work(dtype=p.dtype, flops=p.n, bytes_read=x.nbytes + y.nbytes, bytes_written=x.nbytes),
    )


small = case("ops/add", params={"n": [1 << 14], "dtype": ["float32"]}, tags={"small"})(bench)
large = case("ops/add", params={"n": [1 << 20, 1 << 24], "dtype": ["float32"]}, tags={"pr"})(bench)
