"""Ten kernels in ten sizes each, from 1.4 to 180 µs on an H200: the hundred cases of `scripts/prove aa`.

They have no reference, since whether torch is right is not the question here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from evenbench import Bench, case

K, M = 1 << 10, 1 << 20


def one(tensor: torch.Tensor, run: Callable[[torch.Tensor], Any]) -> Bench:
    """A call with one input."""
    return Bench(run=lambda: run(tensor), inputs={"x": tensor})


@case("hundred/add", params={"n": [16 * K, 128 * K, M // 2, M, 2 * M, 4 * M, 6 * M, 8 * M, 16 * M, 32 * M]})
def add(p: Any, device: Any) -> Bench:
    """Sum of two vectors."""
    x, y = torch.randn(2, p.n, device=device)
    return Bench(run=lambda: x + y, inputs={"x": x, "y": y})


@case("hundred/gelu", params={"n": [16 * K, 128 * K, M, 2 * M, 4 * M, 8 * M, 12 * M, 16 * M, 32 * M, 64 * M]})
def gelu(p: Any, device: Any) -> Bench:
    """GELU by the error function."""
    return one(torch.randn(p.n, dtype=torch.bfloat16, device=device), functional.gelu)


@case("hundred/sum", params={"n": [64 * K, 256 * K, M, 2 * M, 4 * M, 8 * M, 16 * M, 24 * M, 32 * M, 64 * M]})
def total(p: Any, device: Any) -> Bench:
    """Sum of all elements."""
    return one(torch.randn(p.n, device=device), torch.sum)


@case("hundred/silu_mul", params={"n": [16 * K, 64 * K, 256 * K, M, 2 * M, 4 * M, 8 * M, 12 * M, 16 * M, 20 * M]})
def silu_mul(p: Any, device: Any) -> Bench:
    """SiLU times a gate: two kernels, of which the second reads what the first wrote."""
    x, gate = torch.randn(2, p.n, device=device)
    return Bench(run=lambda: functional.silu(x) * gate, inputs={"x": x, "gate": gate})


@case("hundred/rms_norm", params={"cols": [256, 512, 1024, 2048, 3072, 4096, 5120, 6144, 8192, 12288]})
def rms_norm(p: Any, device: Any) -> Bench:
    """RMS norm of 4,096 rows."""
    return one(
        torch.randn(4096, p.cols, dtype=torch.bfloat16, device=device), lambda x: functional.rms_norm(x, (p.cols,))
    )


@case("hundred/layer_norm", params={"cols": [256, 512, 1024, 2048, 3072, 4096, 5120, 6144, 8192, 12288]})
def layer_norm(p: Any, device: Any) -> Bench:
    """Layer norm of 4,096 rows."""
    return one(
        torch.randn(4096, p.cols, dtype=torch.bfloat16, device=device), lambda x: functional.layer_norm(x, (p.cols,))
    )


@case("hundred/softmax", params={"cols": [256, 512, 1024, 2048, 3072, 4096, 5120, 6144, 8192, 12288]})
def softmax(p: Any, device: Any) -> Bench:
    """Softmax of 4,096 rows."""
    return one(torch.randn(4096, p.cols, dtype=torch.bfloat16, device=device), lambda x: torch.softmax(x, -1))


@case("hundred/transpose", params={"n": [512, 768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144]})
def transpose(p: Any, device: Any) -> Bench:
    """A transposed copy of a square matrix."""
    return one(torch.randn(p.n, p.n, device=device), lambda x: x.t().contiguous())


@case("hundred/matmul", params={"n": [256, 512, 768, 1024, 1536, 2048, 2560, 3072, 3584, 4096]})
def matmul(p: Any, device: Any) -> Bench:
    """Product of two square matrices."""
    x, y = torch.randn(2, p.n, p.n, dtype=torch.bfloat16, device=device)
    return Bench(run=lambda: x @ y, inputs={"x": x, "y": y})


@case("hundred/sdpa", params={"length": [64, 128, 192, 256, 384, 512, 640, 768, 896, 1024]})
def sdpa(p: Any, device: Any) -> Bench:
    """Attention of 128 heads of 64."""
    q, k, v = torch.randn(3, 8, 16, p.length, 64, dtype=torch.bfloat16, device=device)
    return Bench(
        run=lambda: functional.scaled_dot_product_attention(q, k, v),
        inputs={"q": q, "k": k, "v": v},
    )
