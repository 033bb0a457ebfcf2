import math

import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Scaled dot-product attention: PyTorch's fused kernel, and the matrix of scores written out."""
    shape = (p.batch, p.heads, p.length, p.width)
    q, k, v = torch.randn(3, *shape, dtype=getattr(torch, p.dtype), device=device)
    scale = 1 / math.sqrt(p.width)

    def reference():
        scores = q.double() @ k.double().transpose(-1, -2) * scale
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        return powers / powers.sum(-1, keepdim=True) @ v.double()

    return Bench(
        implementations={
            "torch": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
            "composed": lambda: torch.softmax(q @ k.transpose(-1, -2) * scale, -1) @ v,
        },
        baseline="torch",
        inputs={"q": q, "k": k, "v": v},
        reference=reference,
        work=Work(  # two products of matrices; what softmax adds is of lower order
            dtype=p.dtype,
            flops=4 * p.batch * p.heads * p.length**2 * p.width,
            bytes_read=3 * q.nbytes,
            bytes_written=q.nbytes,
            matrix=True,
        ),
    )


small = case(
    "ops/impl/sdpa",
    params={"batch": [1], "heads": [2], "length": [64], "width": [32], "dtype": ["bfloat16"]},
    tags={"impl", "small"},
    rtol=2e-2,
    atol=2e-2,
)(bench)
large = case(
    "ops/impl/sdpa",
    params={"batch": [4], "heads": [16], "length": [512, 1024], "width": [64], "dtype": ["bfloat16"]},
    tags={"impl"},
    rtol=2e-2,
    atol=2e-2,
)(bench)
