import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Layer norm over the last axis, with weight and bias."""
    x = torch.randn(p.rows, p.cols, dtype=getattr(torch, p.dtype), device=device)
    weight, bias = torch.randn(2, p.cols, dtype=x.dtype, device=device)

    def reference():
        centred = x.double() - x.double().mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double() + bias.double()

    return Bench(
        run=lambda: torch.nn.functional.layer_norm(x, (p.cols,), weight, bias, eps=1e-5),
        inputs={"x": x, "weight": weight, "bias": bias},
        reference=reference,
        work=Work(  # add, centre, square, add, scale, weight, bias
            dtype=p.dtype,
            flops=7 * x.numel(),
            bytes_read=x.nbytes + weight.nbytes + bias.nbytes,
            bytes_written=x.nbytes,
        ),
    )


small = case(
    "ops/layer_norm", params={"rows": [64], "cols": [256], "dtype": ["bfloat16"]}, tags={"small"}, rtol=2e-2, atol=2e-2
)(bench)
large = case(
    "ops/layer_norm",
    params={"rows": [4096], "cols": [1024, 8192], "dtype": ["bfloat16"]},
    tags={"pr"},
    rtol=2e-2,
    atol=2e-2,
)(bench)
