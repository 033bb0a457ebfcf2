"""The cases of `test_situations.py`: what goes wrong, and beside it the mend. Named after the sections of timing.md."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from evenbench import Bench, Implementation, Work, backward_of, case

N = 1 << 22  # floats: kernels of about 10 µs
GAP_S = 0.001  # a hundred times as long as a kernel
LONG_CYCLES = 30_000_000  # 15 ms at 2 GHz, over 10 ms at any clock up to 3
OVERSTATED = 100


def on_a_thread(run: Callable[[], Any]) -> Any:
    """The result of a call that another thread made."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(run()))
    thread.start()
    thread.join()
    return results[0]


# ------------------------------------------------------------------------------------------- 1. autograd has its threads


def leaf(device: str) -> Any:
    return torch.randn(N, device=device).requires_grad_()


def silu_slope(x: Any) -> Any:
    wide = x.detach().double()
    gate = torch.sigmoid(wide)
    return gate * (1 + wide * (1 - gate))


@case("autograd/plain", rtol=1e-3, atol=1e-4)
def autograd_plain(p: Any, device: str) -> Bench:
    """The engine's thread launches the kernels."""
    x = leaf(device)
    out = torch.nn.functional.silu(x)
    ones = torch.ones_like(out)
    return Bench(
        run=lambda: torch.autograd.grad(out, x, ones, retain_graph=True)[0],
        inputs={"x": x},
        reference=lambda: silu_slope(x),
    )


@case("autograd/node", rtol=1e-3, atol=1e-4)
def autograd_node(p: Any, device: str) -> Bench:
    """One node, driven by this thread."""
    x = leaf(device)
    return Bench(run=backward_of(torch.nn.functional.silu(x)), inputs={"x": x}, reference=lambda: silu_slope(x))


@case("autograd/refused")
def autograd_refused(p: Any, device: str) -> Bench:
    """A chain of nodes, which backward_of does not take."""
    x = leaf(device)
    return Bench(run=backward_of(torch.nn.functional.silu(x).cos()), inputs={"x": x})


@case("autograd/chain", rtol=1e-3, atol=1e-3)
def autograd_chain(p: Any, device: str) -> Bench:
    """A chain of nodes, with the engine kept on this thread."""
    x = leaf(device)
    out = torch.nn.functional.silu(x).cos()
    ones = torch.ones_like(out)

    def run() -> Any:
        with torch.autograd.set_multithreading_enabled(False):
            return torch.autograd.grad(out, x, ones, retain_graph=True)[0]

    def reference() -> Any:
        wide = x.detach().double()
        return -torch.sin(wide * torch.sigmoid(wide)) * silu_slope(x)

    return Bench(run=run, inputs={"x": x}, reference=reference)


# ---------------------------------------------------------------------------------- 2. other threads, other CUSTOM ids


@case("threads/other")
def threads_other(p: Any, device: str) -> Bench:
    """A thread of the call's own launches."""
    x = torch.randn(N, device=device)
    return Bench(run=lambda: on_a_thread(x.neg), inputs={"x": x}, reference=lambda: -x)


@case("threads/own")
def threads_own(p: Any, device: str) -> Bench:
    """A thread prepares on the host, and the calling one launches."""
    x = torch.randn(N, device=device)
    return Bench(run=lambda: x.mul(on_a_thread(lambda: -1.0)), inputs={"x": x}, reference=lambda: -x)


def marked(kind: str, run: Callable[[], Any]) -> Callable[[], Any]:
    """The call with a correlation id of its own, as a profiler's annotations make."""
    from cupti import cupti

    number = int(getattr(cupti.ExternalCorrelationKind, kind))

    def call() -> Any:
        cupti.activity_push_external_correlation_id(number, 7)
        result = run()
        cupti.activity_pop_external_correlation_id(number)
        return result

    return call


@case("ids/custom0")
def ids_custom0(p: Any, device: str) -> Bench:
    """Ids of the kind that the instrument uses."""
    x = torch.randn(N, device=device)
    return Bench(run=marked("CUSTOM0", x.neg), inputs={"x": x}, reference=lambda: -x)


@case("ids/custom1")
def ids_custom1(p: Any, device: str) -> Bench:
    """Ids of a kind that is free."""
    x = torch.randn(N, device=device)
    return Bench(run=marked("CUSTOM1", x.neg), inputs={"x": x}, reference=lambda: -x)


# ---------------------------------------------------------------------------- 3. results that exist only after a copy


@case("copies/alone")
def copies_alone(p: Any, device: str) -> Bench:
    """Nothing but a copy, which is not counted."""
    x, out = torch.randn(N, device=device), torch.empty(N, device=device)
    return Bench(run=lambda: out.copy_(x), inputs={"x": x}, reference=x.clone)


def write_back(device: str, *, count_copies: bool) -> Bench:
    """A kernel into a buffer, and the copy that puts the result in its place."""
    x = torch.randn(N, device=device)
    buffer, out = torch.empty_like(x), torch.empty_like(x)

    def run() -> Any:
        torch.neg(x, out=buffer)
        return out.copy_(buffer)

    return Bench(run=run, inputs={"x": x}, reference=lambda: -x, count_copies=count_copies)


@case("copies/left_out")
def copies_left_out(p: Any, device: str) -> Bench:
    """The copy is part of the work, and left out."""
    return write_back(device, count_copies=False)


@case("copies/counted")
def copies_counted(p: Any, device: str) -> Bench:
    """The copy is part of the work, and counted."""
    return write_back(device, count_copies=True)


# -------------------------------------------------------------------------------------------------- 4. in-place inputs


@case("in_place/declared")
def in_place_declared(p: Any, device: str) -> Bench:
    """Overwrites an input that it declares."""
    x = torch.randn(N, device=device)
    expected = 3 * x
    return Bench(run=lambda: x.mul_(3), inputs={"x": x}, reference=lambda: expected)


@case("in_place/undeclared")
def in_place_undeclared(p: Any, device: str) -> Bench:
    """Overwrites what it reads and does not say so: the second call works on the first one's result."""
    x = torch.randn(N, device=device)
    expected = 3 * x
    return Bench(run=lambda: x.mul_(3), reference=lambda: expected)


@case("in_place/reset")
def in_place_reset(p: Any, device: str) -> Bench:
    """Overwrites a private copy that reset= restores."""
    original = torch.randn(N, device=device)
    x = original.clone()
    return Bench(
        run=lambda: x.mul_(3),
        reset=lambda: x.copy_(original),
        inputs={"original": original},
        reference=lambda: original * 3,
    )


# -------------------------------------------------------------------------------------------- 5. several kernels a call


def three_kernels(device: str, gap_s: float) -> Bench:
    x = torch.randn(4 * N, device=device)  # more than an L2 holds, so that a gap leaves nothing behind in it

    def run() -> Any:
        found = x.neg()
        time.sleep(gap_s)
        found = found.neg()
        time.sleep(gap_s)
        return found.neg()

    return Bench(run=run, inputs={"x": x}, reference=lambda: -x)


@case("several/prompt")
def several_prompt(p: Any, device: str) -> Bench:
    """Three kernels, one after the other."""
    return three_kernels(device, 0)


@case("several/delayed")
def several_delayed(p: Any, device: str) -> Bench:
    """The same from a slow host."""
    return three_kernels(device, GAP_S)


# ---------------------------------------------------------------------------------------------- 6. calls over 10 ms


@case("long/plain")
def long_plain(p: Any, device: str) -> Bench:
    """Keeps the fewest samples."""
    return Bench(run=lambda: torch.cuda._sleep(LONG_CYCLES))


@case("long/asked", iterations=30)
def long_asked(p: Any, device: str) -> Bench:
    """Asks for more of them."""
    return Bench(run=lambda: torch.cuda._sleep(LONG_CYCLES))


# ---------------------------------------------------------------------------------- 7. a kernel with no op around it


def doubling(out: Any, x: Any, n: int) -> Callable[[], None]:
    """A bare kernel over the first `n` elements: the shape is what its caller says."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def double(x, out, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * block + tl.arange(0, block)
        inside = at < n
        tl.store(out + at, 2 * tl.load(x + at, mask=inside), mask=inside)

    block = 1024

    def run() -> None:
        double[(triton.cdiv(n, block),)](x, out, n, block)

    run()  # compiles
    return run


def bare(device: str, n: int, claim: int, *, checked: bool) -> Bench:
    x = torch.randn(N, device=device)
    out = torch.empty_like(x)
    return Bench(
        run=doubling(out, x, n),
        inputs={"x": x},
        outputs={"out": out} if checked else None,
        reference=(lambda: 2 * x) if checked else None,
        work=Work(dtype="float32", flops=N, bytes_read=claim * x.nbytes, bytes_written=claim * x.nbytes),
    )


@case("bare/checked", requires=["triton"])
def bare_checked(p: Any, device: str) -> Bench:
    """All of it, with outputs and reference."""
    return bare(device, N, 1, checked=True)


@case("bare/half", requires=["triton"])
def bare_half(p: Any, device: str) -> Bench:
    """A shape written down wrongly, and nothing to notice it."""
    return bare(device, N // 2, 1, checked=False)


@case("bare/half_checked", requires=["triton"])
def bare_half_checked(p: Any, device: str) -> Bench:
    """The same wrong shape, with outputs and reference."""
    return bare(device, N // 2, 1, checked=True)


@case("bare/overstated", requires=["triton"])
def bare_overstated(p: Any, device: str) -> Bench:
    """Work written down wrongly."""
    return bare(device, N, OVERSTATED, checked=True)


# -------------------------------------------------------------------------------------------- 8. a new external baseline


def library_neg(x: Any) -> Any:
    """Stands for a library that takes double precision alone."""
    assert x.dtype == torch.float64
    return x.neg()


def beside_a_library(device: str, library: Callable[[Any], Implementation]) -> Bench:
    x = torch.randn(N, device=device)
    return Bench(
        implementations={"library": library(x), "ours": x.neg},
        baseline="library",
        inputs={"x": x},
        reference=lambda: -x,
    )


@case("baseline/converts_outside")
def baseline_converts_outside(p: Any, device: str) -> Bench:
    """The conversion happens once, in make, for free."""

    def made(x: Any) -> Callable[[], Any]:
        wide = x.double()
        return lambda: library_neg(wide)

    return beside_a_library(device, lambda x: Implementation(lambda: made(x)))


@case("baseline/converts_inside")
def baseline_converts_inside(p: Any, device: str) -> Bench:
    """The conversion is part of every call."""
    return beside_a_library(device, lambda x: Implementation(lambda: lambda: library_neg(x.double())))


def missing() -> Callable[[], Any]:
    """An import that fails wherever it is tried."""
    raise ImportError("no module named 'library_of_nobody'")


@case("baseline/missing")
def baseline_missing(p: Any, device: str) -> Bench:
    """A baseline that is not installed: there is nothing to refer to."""
    return beside_a_library(device, lambda x: Implementation(missing))


@case("baseline/other_missing")
def baseline_other_missing(p: Any, device: str) -> Bench:
    """Another implementation that is not installed."""
    x = torch.randn(N, device=device)
    return Bench(
        implementations={"ours": x.neg, "library": Implementation(missing)},
        baseline="ours",
        inputs={"x": x},
        reference=lambda: -x,
    )
