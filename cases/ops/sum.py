import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Sum of all elements; large enough, it reads memory at full speed and writes nothing to speak of."""
    x = torch.randn(p.n, dtype=getattr(torch, p.dtype), device=device)
    return Bench(
        run=x.sum,
        inputs={"x": x},
        reference=lambda: x.double().sum(),
        work=Work(dtype=p.dtype, flops=p.n, bytes_read=x.nbytes, bytes_written=x.itemsize),
    )


# The terms cancel, so the error is absolute: a sum of 2**26 normal numbers is some thousands large.
small = case("ops/sum", params={"n": [1 << 14], "dtype": ["float32"]}, tags={"small"}, atol=1e-4)(bench)
large = case("ops/sum", params={"n": [1 << 22, 1 << 26], "dtype": ["float32"]}, tags={"pr"}, atol=1e-2)(bench)
