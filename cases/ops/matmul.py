import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Product of two square matrices."""
    a = torch.randn(p.n, p.n, dtype=getattr(torch, p.dtype), device=device)
    b = torch.randn_like(a) / p.n**0.5  # keeps the result near 1, whatever the size
    return Bench(
        run=lambda: a @ b,
        inputs={"a": a, "b": b},
        reference=lambda: a.double() @ b.double(),
        work=Work(dtype=p.dtype, flops=2 * p.n**3, bytes_read=a.nbytes + b.nbytes, bytes_written=a.nbytes, matrix=True),
    )


# atol: parts of a sum may be added in bfloat16.
small = case("ops/matmul", params={"n": [128], "dtype": ["bfloat16"]}, tags={"small"}, rtol=2e-2, atol=3e-2)(bench)
large = case("ops/matmul", params={"n": [1024, 2048, 4096], "dtype": ["bfloat16"]}, tags={"pr"}, rtol=2e-2, atol=3e-2)(
    bench
)
