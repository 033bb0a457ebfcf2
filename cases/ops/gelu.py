import math

import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """GELU by the error function, not its tanh approximation."""
    x = torch.randn(p.n, dtype=getattr(torch, p.dtype), device=device)

    def reference():
        wide = x.double()
        return wide * (1 + torch.erf(wide / math.sqrt(2))) / 2

    return Bench(
        run=lambda: torch.nn.functional.gelu(x),
        inputs={"x": x},
        reference=reference,
        work=Work(dtype=p.dtype, flops=5 * p.n, bytes_read=x.nbytes, bytes_written=x.nbytes),  # erf counts as one
    )


small = case("ops/gelu", params={"n": [1 << 14], "dtype": ["bfloat16"]}, tags={"small"}, rtol=1e-2, atol=1e-3)(bench)
large = case("ops/gelu", params={"n": [1 << 22, 1 << 25], "dtype": ["bfloat16"]}, tags={"pr"}, rtol=1e-2, atol=1e-3)(
    bench
)
