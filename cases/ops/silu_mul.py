import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """SiLU, multiply, add: one kernel each, where a fused one would read and write once."""
    x = torch.randn(p.n, dtype=getattr(torch, p.dtype), device=device)
    gate, bias = torch.randn_like(x), torch.randn_like(x)

    def reference():
        wide = x.double()
        return wide / (1 + torch.exp(-wide)) * gate.double() + bias.double()

    return Bench(
        run=lambda: torch.nn.functional.silu(x) * gate + bias,
        inputs={"x": x, "gate": gate, "bias": bias},
        reference=reference,
        work=Work(dtype=p.dtype, flops=6 * p.n, bytes_read=3 * x.nbytes, bytes_written=x.nbytes),  # exp counts as one
    )


small = case("ops/silu_mul", params={"n": [1 << 14], "dtype": ["float32"]}, tags={"small"}, atol=1e-5)(bench)
large = case("ops/silu_mul", params={"n": [1 << 20, 1 << 23], "dtype": ["float32"]}, tags={"pr"}, atol=1e-5)(bench)
