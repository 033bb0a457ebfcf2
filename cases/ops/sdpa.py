import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Scaled dot-product attention over the whole sequence, without a mask."""
    shape = (p.batch, p.heads, p.length, p.dim)
    q, k, v = torch.randn(3, *shape, dtype=getattr(torch, p.dtype), device=device)

    def reference():
        scores = q.double() @ k.double().mT / p.dim**0.5
        return torch.softmax(scores, -1) @ v.double()

    return Bench(
        run=lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v),
        inputs={"q": q, "k": k, "v": v},
        reference=reference,
        work=Work(  # the two matrix products; the softmax between them is not counted
            dtype=p.dtype,
            flops=4 * p.batch * p.heads * p.length**2 * p.dim,
            bytes_read=3 * q.nbytes,
            bytes_written=q.nbytes,
            matrix=True,
        ),
    )


small = case(
    "ops/sdpa",
    params={"batch": [1], "heads": [2], "length": [128], "dim": [64], "dtype": ["bfloat16"]},
    tags={"small"},
    rtol=2e-2,
    atol=1e-2,
)(bench)
large = case(
    "ops/sdpa",
    params={"batch": [8], "heads": [16], "length": [512, 1024], "dim": [64], "dtype": ["bfloat16"]},
    tags={"pr"},
    rtol=2e-2,
    atol=1e-2,
)(bench)
