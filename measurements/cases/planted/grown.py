"""Kernels that can be slowed from within: in head each works on `more` of its rows or elements, in the same launch.

The buffers have room for that on both sides, so that their sizes and addresses are the same. How much slower it gets
is for the measurement to say: a larger grid does not take longer by just as much.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from evenbench import Bench, case

GROWN = False  # `scripts/prove collect` says True in head's copy


def sizes(size: int, more: float) -> tuple[int, int]:
    """How much of a buffer is worked on, and how large it is."""
    large = size + round(size * more)
    return (large if GROWN else size), large


@case("planted/add", params={"n": [1 << 20], "more": [0.05]})
def add(p: Any, device: Any) -> Bench:
    """Sum of two vectors; some 4 µs on an H200."""
    n, room = sizes(p.n, p.more)
    x, y = torch.randn(2, room, device=device)
    return Bench(run=lambda: x[:n] + y[:n], inputs={"x": x, "y": y}, reference=lambda: x[:n].double() + y[:n].double())


@case("planted/gelu", params={"n": [1 << 23], "more": [0.03]}, rtol=1e-2, atol=1e-3)
def gelu(p: Any, device: Any) -> Bench:
    """GELU by the error function; some 10 µs."""
    n, room = sizes(p.n, p.more)
    x = torch.randn(room, dtype=torch.bfloat16, device=device)
    return Bench(
        run=lambda: functional.gelu(x[:n]),
        inputs={"x": x},
        reference=lambda: x[:n].double() * torch.special.ndtr(x[:n].double()),
    )


@case("planted/rms_norm", params={"rows": [4096], "cols": [4096], "more": [0.05]}, rtol=2e-2, atol=1e-2)
def rms_norm(p: Any, device: Any) -> Bench:
    """RMS norm; some 20 µs."""
    rows, room = sizes(p.rows, p.more)
    x = torch.randn(room, p.cols, dtype=torch.bfloat16, device=device)

    def reference() -> torch.Tensor:
        wide = x[:rows].double()
        return wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt()

    return Bench(run=lambda: functional.rms_norm(x[:rows], (p.cols,), eps=1e-6), inputs={"x": x}, reference=reference)


@case("planted/layer_norm", params={"rows": [4096], "cols": [8192], "more": [0.03]}, rtol=2e-2, atol=2e-2)
def layer_norm(p: Any, device: Any) -> Bench:
    """Layer norm; some 55 µs."""
    rows, room = sizes(p.rows, p.more)
    x = torch.randn(room, p.cols, dtype=torch.bfloat16, device=device)

    def reference() -> torch.Tensor:
        centred = x[:rows].double() - x[:rows].double().mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    return Bench(run=lambda: functional.layer_norm(x[:rows], (p.cols,), eps=1e-5), inputs={"x": x}, reference=reference)


@case("planted/softmax", params={"rows": [6400], "cols": [4096], "more": [0.02, 0.05]}, rtol=1e-2, atol=1e-6)
def softmax(p: Any, device: Any) -> Bench:
    """Softmax; some 85 µs."""
    rows, room = sizes(p.rows, p.more)
    x = torch.randn(room, p.cols, dtype=torch.bfloat16, device=device)

    def reference() -> torch.Tensor:
        powers = torch.exp(x[:rows].double() - x[:rows].double().amax(-1, keepdim=True))
        return powers / powers.sum(-1, keepdim=True)

    return Bench(run=lambda: torch.softmax(x[:rows], -1), inputs={"x": x}, reference=reference)
