"""For case authors, scripts and notebooks: a backward pass on the calling thread, and the bare timer.

Loaded when first used: `from evenbench import backward_of, bench_kernel`.
"""

from __future__ import annotations

import functools
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import UsageError
from ...timing import choose_timer, host, make_sweep, make_timer, protocol
from ...timing.no_gc import no_collection
from ...words import count
from . import jobs

LEAF = "AccumulateGrad"  # adds a gradient to that of a leaf tensor; where a backward pass ends
DECILES = 10
ENGINE_HINT = (
    "call torch.autograd.grad(out, inputs, grad, retain_graph=True) inside "
    "`with torch.autograd.set_multithreading_enabled(False):`, which keeps autograd's engine on the calling thread"
)


@dataclass(frozen=True)
class Timing:
    """What `bench_kernel` measured. All times are nanoseconds of one call.

    Args:
        median_ns: the plain median of `samples_ns`.
        p10_ns, p90_ns: its first and last decile; coarse for calls over 10 ms, which get 10 samples.
        latency_ns: median time from the first kernel's start to the last one's end, gaps included.
        samples_ns: the device-busy time of each iteration, in order; of the host's clock on a CPU.
        n_kernels: kernels of most calls; None where the timer cannot know.
        timer: the instrument, such as ``cupti``.
        cache: ``cold`` or ``warm``: what a call found there.
        batch: calls that one sample is the mean of; 1 but for short calls on the host's clock.
        rejected: samples that failed validation and are not among `samples_ns`.
    """

    median_ns: float
    p10_ns: float
    p90_ns: float
    latency_ns: float
    samples_ns: tuple[int, ...]
    n_kernels: int | None
    timer: str
    cache: str
    batch: int
    rejected: int

    def __str__(self) -> str:
        kernels = "" if self.n_kernels is None else f", {count(self.n_kernels, 'kernel')} a call"
        return (
            f"{self.median_ns / 1e3:.2f} µs [{self.p10_ns / 1e3:.2f}, {self.p90_ns / 1e3:.2f}]"
            f" ({self.timer}, {self.cache} cache, {count(len(self.samples_ns), 'sample')}{kernels})"
        )


def bench_kernel(  # noqa: PLR0913 (all but what is timed has a default)
    fn: Callable[..., object],
    args: Sequence[Any] = (),
    *,
    warmup_ms: float = 25,
    measure_ms: float = 100,
    cache: str = "cold",
    timer: str = "auto",
    device: str | None = None,
    reset: Callable[[], object] | None = None,
    count_copies: bool = False,
) -> Timing:
    """Time ``fn(*args)`` as a case is timed, one sample an iteration: by CUPTI on a CUDA device, else by the host.

    The result is not checked, nor is it shown that the cache was cold. What differs from process to process is not in
    these numbers, so two of them are no comparison. Nothing else should use the device meanwhile.

    Args:
        fn: the call to time. Its first calls, which may compile, are not timed.
        args: its arguments.
        warmup_ms: budget of the warm-up in milliseconds, cache step included.
        measure_ms: budget of the samples; they are at least 10 and at most 200.
        cache: ``cold`` evicts the cache before every iteration, ``warm`` leaves it as the last one left it.
        timer: an instrument by name, instead of the one that fits the device.
        device: where the work runs, such as ``cuda``; left out: where the arguments lie, or, where none says so, the
            accelerator that torch sees.
        reset: restores what `fn` overwrites; runs before every iteration, not timed.
        count_copies: copies and memsets belong to the work.

    Raises:
        UsageError: `cache` is neither, or the arguments lie on a device that is not the current one.
        MeasurementError: the timer is missing, or found wrong what it would find wrong with a case.
    """
    if cache not in ("cold", "warm"):
        raise UsageError(f"cache={cache!r} must be cold or warm")
    device = device or _device_of(args)
    _refuse_other_device(device)
    call = functools.partial(fn, *args)
    sweep = make_sweep(cache, device)

    def prepare() -> None:
        if reset is not None:
            reset()
        sweep()

    name, _ = choose_timer(timer, device, allow_fallback=False)
    gc.collect()
    with no_collection():
        batch = 1
        if name == "host" and reset is None:
            call()  # decides nothing: it may compile
            batch = protocol.host_batch(protocol.call_cost(make_timer(name), call), host.clock_resolution_ns())
        instrument = make_timer(name, batch=batch)
        cost_ns = protocol.calibrate(instrument, prepare, call, count_copies=count_copies)
        counts = protocol.counts_for_run(cost_ns, warmup_ms, measure_ms)
        measured = protocol.measure(
            instrument,
            prepare,
            call,
            counts,
            deadline_ns=None,
            clock=time.perf_counter_ns,
            count_copies=count_copies,
        )
    return _timing(measured.segment, name, "cold" if sweep.cold else "warm")


def backward_of(out: Any, grad: Any = None) -> Callable[[], Any]:
    """The backward pass of one differentiable operation, as a call that launches its kernels on the calling thread.

    ``out.backward()`` hands the pass to a thread of autograd's engine, whose kernels carry no id of the timed call.
    This calls the node itself: no engine, no accumulation into ``.grad``, no hooks. The call can be repeated, and it
    keeps `out` alive, so the case need not.

    Args:
        out: the result of one operation on leaf tensors of which one at least requires a gradient.
        grad: the gradient of `out`; left out: ones, so that a reference knows it.

    Returns:
        A call without arguments that returns the gradients: a tensor, or a tuple where there are several.

    Raises:
        UsageError: `out` has no gradient, or comes from a chain of operations, of which this would drive only the last.
    """
    node = getattr(out, "grad_fn", None)
    if node is None:
        raise UsageError(
            "out has no grad_fn, so there is no backward pass",
            "make it with gradients enabled, from an input that has requires_grad=True",
        )
    before = [type(other).__name__ for other, _ in node.next_functions if other is not None]
    chained = [name for name in before if name != LEAF]
    if chained:
        raise UsageError(
            f"out comes from a chain of operations: {type(node).__name__} after {', '.join(chained)}", ENGINE_HINT
        )
    grads = [None] * len(node._input_metadata)  # noqa: SLF001 (torch has no public count of a node's outputs)
    native = callable(node)  # the node of a torch.autograd.Function is not
    if not native and len(grads) > 1:
        raise UsageError(
            f"{type(node).__name__} has {len(grads)} outputs, whose gradients autograd's engine must fill in",
            ENGINE_HINT,
        )
    grads[out.output_nr] = sys.modules["torch"].ones_like(out) if grad is None else grad  # `out` is a tensor of torch
    return _Backward(out, node if native else node.apply, grads)


@dataclass(frozen=True, eq=False)
class _Backward:
    """What `backward_of` returns.

    Args:
        out: is only kept. The node of a `torch.autograd.Function` does not own what was saved for it: its part of the
            graph does, and that lives as long as `out`. Without `out`, torch 2.11 reports a second backward pass.
        run: calls the node with the gradients of its outputs.
        grads: those gradients; None for the outputs that nobody differentiates.
    """

    out: Any = field(repr=False)
    run: Callable[..., Any]
    grads: Sequence[Any] = field(repr=False)

    def __call__(self) -> Any:
        with sys.modules["torch"].no_grad():  # as in the engine: nobody differentiates the gradients again
            found = self.run(*self.grads)
        kept = [each for each in (found if isinstance(found, tuple) else (found,)) if each is not None]
        return kept[0] if len(kept) == 1 else tuple(kept)


def _device_of(args: Sequence[Any]) -> str:
    places = [str(arg.device) for arg in args if hasattr(arg, "device")]
    if not places and "torch" in sys.modules:
        return jobs.accelerator()
    return next((place for place in places if place != jobs.HOST), jobs.HOST)


def _refuse_other_device(device: str) -> None:
    """The timer waits for the current device, so work elsewhere would be read before it is done."""
    index = device.partition(":")[2]
    if index and device.startswith("cuda") and int(index) != sys.modules["torch"].cuda.current_device():
        raise UsageError(f"{device} is not the current device", f"call inside `with torch.cuda.device({index}):`")


def _timing(segment: protocol.Segment, timer: str, cache: str) -> Timing:
    samples = segment.device_busy_ns
    deciles = statistics.quantiles(samples, n=DECILES, method="inclusive")
    return Timing(
        median_ns=statistics.median(samples),
        p10_ns=deciles[0],
        p90_ns=deciles[-1],
        latency_ns=statistics.median(segment.latency_ns),
        samples_ns=tuple(samples),
        n_kernels=statistics.mode(segment.n_kernels) if segment.n_kernels else None,
        timer=timer,
        cache=cache,
        batch=segment.batch,
        rejected=len(segment.rejected),
    )
