"""Matrix products of torch's libraries on the CUDA device, as a probed device's shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .benchmarker import Probe
from .clocks import repeated
from .probes import Shape, Unsupported

SIZE = 8192  # rows, columns and sums: large enough that the library's own costs vanish
GEMM_REST_S = 0.25  # before a peak: large products draw so much power that the clocks soon fall
FP8 = "float8_e4m3fn"
GEMM_DTYPES = ("float32", "tf32", "float64", "float16", "bfloat16", "int8", FP8)
FP8_CAPABILITY = (8, 9)


def gemm_shapes(dtype: str, busy: Callable[[Callable[[], object]], float], *, zeros: bool) -> Sequence[Shape]:
    """The product at `SIZE`³ in one data type; `tf32` stands for float32 data multiplied by way of it.

    Args:
        busy: tells the seconds in which the device worked on what is launched.
        zeros: constant data instead of random ones.

    Raises:
        Unsupported: torch or the device has no such product.
    """
    product, called = _product(dtype, zeros=zeros)

    def sample(iterations: int) -> float:
        set_precision(dtype)
        return busy(repeated(product, iterations))

    return [Shape(f"{called} {SIZE}³", Probe(sample, 2 * SIZE**3))]


def set_precision(dtype: str) -> None:
    """float32 is multiplied as such, unless it is tf32 that is asked for."""
    import torch

    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")


def _product(dtype: str, *, zeros: bool) -> tuple[Callable[[], Any], str]:
    import torch

    def matrix(kind: Any) -> Any:
        made = torch.zeros if zeros else torch.randn
        return made(SIZE, SIZE, device="cuda", dtype=kind)

    if dtype == "int8":
        a, b = (
            torch.zeros(SIZE, SIZE, device="cuda", dtype=torch.int8)
            if zeros
            else torch.randint(-128, 128, (SIZE, SIZE), device="cuda", dtype=torch.int8)
            for _ in range(2)
        )
        return lambda: torch._int_mm(a, b.t()), "torch._int_mm"  # noqa: SLF001 - torch has no public one
    if dtype == FP8:
        return _fp8_product(matrix)
    kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
    a, b, out = matrix(kind), matrix(kind), torch.empty(SIZE, SIZE, device="cuda", dtype=kind)
    return lambda: torch.matmul(a, b, out=out), "torch.matmul"


def _fp8_product(matrix: Callable[[Any], Any]) -> tuple[Callable[[], Any], str]:
    import torch

    if torch.cuda.get_device_capability() < FP8_CAPABILITY:
        raise Unsupported("this device has no units for float8")
    if not hasattr(torch, "_scaled_mm") or not hasattr(torch, FP8):
        raise Unsupported("this torch has no product of float8 matrices")
    a, b = (matrix(torch.bfloat16).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    transposed = b.t()  # the library takes its second factor column by column

    def product() -> Any:
        return torch._scaled_mm(  # noqa: SLF001 - torch has no public one
            a, transposed, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return product, "torch._scaled_mm"
