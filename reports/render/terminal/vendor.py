"""What vendors say that their devices reach, by the name that the driver gives a model; dense, without sparsity.

They are computed from clocks and units, not measured, and stand beside what was measured for comparison alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

T = 1e12
LOCKWOOD_H100 = "https://glennklockwood.com/garden/processors/h100 (after NVIDIA's H100 white paper)"
LOCKWOOD_A100 = "https://glennklockwood.com/garden/processors/A100 (after NVIDIA's A100 datasheet)"
H200_MEMORY = "https://openmetal.io/resources/blog/how-the-h200-is-built-for-memory-bound-ai-workloads/"
RTX_4090 = "https://waredb.com/processor/nvidia-geforce-rtx-4090"
RTX_3090 = "https://holynerdvana.blogspot.com/2022/10/nvidia-geforce-rtx-3090-specifications.html"


@dataclass(frozen=True)
class Stated:
    """A model's stated rates, in operations or bytes a second, and where they are from.

    Attributes:
        rates: by key of a ceiling; ``memory`` stands for copies, reads and writes.
        sources: addresses.
    """

    rates: Mapping[str, float]
    sources: tuple[str, ...]

    def rate(self, key: str) -> float | None:
        """The rate that a ceiling is to be held against: both ways to multiply matrices have one."""
        if key.startswith("memory/"):
            return self.rates.get("memory")
        return self.rates.get("/".join(key.split("/")[:2]))


_HOPPER: Mapping[str, float] = {
    "compute/float64": 33.5 * T,
    "compute/float32": 66.9 * T,
    "compute/float16": 133.8 * T,
    "compute/bfloat16": 133.8 * T,
    "matrix/float64": 66.9 * T,
    "matrix/tf32": 494.7 * T,
    "matrix/float16": 989.4 * T,
    "matrix/bfloat16": 989.4 * T,
    "matrix/float8_e4m3fn": 1978.9 * T,
    "matrix/int8": 1978.9 * T,
}
_A100: Mapping[str, float] = {
    "compute/float64": 9.7 * T,
    "compute/float32": 19.5 * T,
    "matrix/float64": 19.5 * T,
    "matrix/tf32": 156 * T,
    "matrix/float16": 312 * T,
    "matrix/bfloat16": 312 * T,
    "matrix/int8": 624 * T,
}
_RTX_4090: Mapping[str, float] = {
    "compute/float64": 1.29 * T,
    "compute/float32": 82.58 * T,
    "compute/float16": 82.58 * T,
    "compute/bfloat16": 82.58 * T,
    "matrix/tf32": 82.58 * T,
    "matrix/float16": 165.15 * T,
    "matrix/bfloat16": 165.15 * T,
    "matrix/float8_e4m3fn": 330.3 * T,
    "matrix/int8": 660.6 * T,
    "memory": 1.008 * T,
}
STATED: Mapping[str, Stated] = MappingProxyType(
    {
        "NVIDIA H200": Stated({**_HOPPER, "memory": 4.8 * T}, (LOCKWOOD_H100, H200_MEMORY)),
        "NVIDIA H100 80GB HBM3": Stated({**_HOPPER, "memory": 3.35 * T}, (LOCKWOOD_H100,)),
        "NVIDIA A100-SXM4-40GB": Stated({**_A100, "memory": 1.555 * T}, (LOCKWOOD_A100,)),
        "NVIDIA A100-SXM4-80GB": Stated({**_A100, "memory": 2.039 * T}, (LOCKWOOD_A100,)),
        "NVIDIA GeForce RTX 4090": Stated(_RTX_4090, (RTX_4090,)),
        "NVIDIA GeForce RTX 3090": Stated({"compute/float32": 35.6 * T, "memory": 0.936 * T}, (RTX_3090,)),
    }
)


def stated(device: str) -> Stated | None:
    """What is known of a model; None for one that is not listed here."""
    return STATED.get(device)
