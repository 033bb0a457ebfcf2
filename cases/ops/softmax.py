import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Softmax over the last axis."""
    x = torch.randn(p.rows, p.cols, dtype=getattr(torch, p.dtype), device=device)

    def reference():
        powers = torch.exp(x.double() - x.double().amax(-1, keepdim=True))
        return powers / powers.sum(-1, keepdim=True)

    return Bench(
        run=lambda: torch.softmax(x, -1),
        inputs={"x": x},
        reference=reference,
        work=Work(  # maximum, subtract, exp, add, divide
            dtype=p.dtype, flops=5 * x.numel(), bytes_read=x.nbytes, bytes_written=x.nbytes
        ),
    )


small = case(
    "ops/softmax", params={"rows": [64], "cols": [256], "dtype": ["bfloat16"]}, tags={"small"}, rtol=1e-2, atol=1e-6
)(bench)
large = case(
    "ops/softmax",
    params={"rows": [4096], "cols": [1024, 4096], "dtype": ["bfloat16"]},
    tags={"pr"},
    rtol=1e-2,
    atol=1e-6,
)(bench)
