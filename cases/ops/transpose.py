import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """A transposed copy of a square matrix; its speed depends on where the buffers happen to lie."""
    x = torch.randn(p.n, p.n, dtype=getattr(torch, p.dtype), device=device)
    return Bench(
        run=lambda: x.t().contiguous(),
        inputs={"x": x},
        reference=lambda: torch.stack(x.unbind(1)),
        work=Work(dtype=p.dtype, bytes_read=x.nbytes, bytes_written=x.nbytes),
    )


small = case("ops/transpose", params={"n": [128], "dtype": ["float32"]}, tags={"small"}, rtol=0, atol=0)(bench)
large = case("ops/transpose", params={"n": [2048, 4096], "dtype": ["float32"]}, tags={"pr"}, rtol=0, atol=0)(bench)
