"""What timed code may try so that it looks faster, through the timed launch's own path. docs/tampering.md has the table.

What is found ends in a failure. Of what is not found, the tests show that, so that the table stays honest.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from evenbench.runner.case.declare import Bench
from evenbench.runner.timing.cupti import attribution
from tests.fakes.tampering import SAMPLES, SIZE, SPIN_CYCLES, Ids, busy, measure, negative, refused

pytestmark = pytest.mark.gpu

CHILD = """
import sys, torch
torch.cuda._sleep(1)
for _ in sys.stdin:
    torch.cuda._sleep(500_000)
    torch.cuda.synchronize()
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


@pytest.fixture
def ids(torch: Any) -> Ids:
    return Ids()


@pytest.fixture(scope="module")
def child() -> Iterator[Callable[[], None]]:
    """`child()` has another process work on the device, and returns when that is done."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout

        def work() -> None:
            assert process.stdin
            assert process.stdout
            print("work", file=process.stdin, flush=True)
            assert process.stdout.readline() == "done\n"

        work()
        yield work
        process.stdin.close()


# ------------------------------------------------------------------------------------------------- correlation ids


def test_an_honest_case_is_measured(torch: Any) -> None:
    message = measure(negative(torch, lambda x: None))
    assert busy(message) > 0
    assert message["n_kernels"] == [1] * SAMPLES


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_a_kernel_under_a_preparation_id_is_found(torch: Any, ids: Ids, first: bool) -> None:
    def bench(p: Any, device: str) -> Bench:
        x = torch.randn(SIZE, device=device)
        seen: list[int] = []

        def reset() -> None:  # runs in preparation, under its id
            seen[:] = [ids.pop()]
            ids.push(seen[0])

        def hide() -> None:
            ids.push(seen[0])
            x.cos()
            ids.pop()

        def run() -> Any:
            if first:
                hide()
            out = x.neg()
            if not first:
                hide()
            return out

        return Bench(run=run, reset=reset, inputs={"x": x}, reference=lambda: -x.double())

    assert refused(measure(bench), "attribution", "preparation")


def test_a_popped_id_is_found(torch: Any, ids: Ids) -> None:
    assert refused(measure(negative(torch, lambda x: ids.pop())), "attribution", "stack of correlation ids")


def test_a_kernel_while_the_id_is_popped_is_found(torch: Any, ids: Ids) -> None:
    def hide(x: Any) -> None:
        identity = ids.pop()
        x.cos()
        ids.push(identity)

    assert refused(measure(negative(torch, hide)), "attribution", "after the call had popped its correlation id")


def test_a_kernel_while_all_ids_are_popped_is_found(torch: Any, ids: Ids) -> None:
    def hide(x: Any) -> None:
        identity, below = ids.pop(), ids.pop()
        x.cos()
        ids.push(below)
        ids.push(identity)

    assert refused(measure(negative(torch, hide)), "attribution", "carries no correlation id")


# ------------------------------------------------------------------------------------------------------ elsewhere


def test_work_on_another_thread_is_found(torch: Any) -> None:
    def hide(x: Any) -> None:
        thread = threading.Thread(target=x.cos)
        thread.start()
        thread.join()

    assert refused(measure(negative(torch, hide)), "attribution", "a thread of its own launched it")


def test_work_on_another_stream_counts(torch: Any) -> None:
    side = torch.cuda.Stream()

    def elsewhere(_: Any) -> None:
        with torch.cuda.stream(side):
            torch.cuda._sleep(SPIN_CYCLES)

    honest = busy(measure(negative(torch, lambda x: None)))
    message = measure(negative(torch, elsewhere))
    assert message["n_kernels"] == [2] * SAMPLES
    assert busy(message) > 10 * honest


def test_work_deferred_to_a_thread_past_the_call_is_found(torch: Any) -> None:
    def later(x: Any) -> None:
        time.sleep(0.0001)
        x.cos()

    with ThreadPoolExecutor(1) as pool:
        message = measure(negative(torch, lambda x: pool.submit(later, x)))
    torch.cuda.synchronize()
    assert refused(message, "attribution", "a thread of its own launched it")


def test_work_deferred_to_the_next_reset_is_not_found(torch: Any) -> None:
    def bench(p: Any, device: str) -> Bench:
        x = torch.randn(SIZE, device=device)
        out = torch.empty_like(x)

        def reset() -> None:  # what prepares an iteration is not timed
            torch.cuda._sleep(SPIN_CYCLES)
            torch.neg(x, out=out)

        def run() -> Any:
            x[:1].neg()
            return out

        return Bench(run=run, reset=reset, inputs={"x": x}, reference=lambda: -x.double())

    message = measure(bench)
    assert busy(message) < busy(measure(negative(torch, lambda x: torch.cuda._sleep(SPIN_CYCLES)))) / 10


def test_a_call_that_works_in_another_process_alone_is_found(torch: Any, child: Callable[[], None]) -> None:
    def bench(p: Any, device: str) -> Bench:
        x = torch.randn(SIZE, device=device)
        out = -x

        def run() -> Any:
            child()
            return out

        return Bench(run=run, inputs={"x": x}, reference=lambda: -x.double())

    assert refused(measure(bench), "attribution", "launched nothing on the device")


def test_work_in_another_process_beside_a_kernel_is_not_found(torch: Any, child: Callable[[], None]) -> None:
    message = measure(negative(torch, lambda x: child()))
    assert message["n_kernels"] == [1] * SAMPLES
    assert busy(message) < 10 * busy(measure(negative(torch, lambda x: None)))


# -------------------------------------------------------------------------------------------------- results kept


def keeping(torch: Any, token: bool, *, key: Callable[[Any], object]) -> Callable[..., Bench]:
    """A case whose call computes once for each key, and launches a token kernel every time or nothing."""

    def bench(p: Any, device: str) -> Bench:
        x = torch.randn(SIZE, device=device)
        kept: dict[object, Any] = {}

        def run() -> Any:
            if key(x) not in kept:
                kept[key(x)] = x.neg()
            if token:
                x[:1].neg()
            return kept[key(x)]

        return Bench(run=run, inputs={"x": x}, reference=lambda: -x.double())

    return bench


def by_pointer(x: Any) -> object:
    return x.data_ptr()


def by_nothing(x: Any) -> object:
    return None


@pytest.mark.parametrize("key", [by_pointer, by_nothing])
def test_a_kept_result_alone_is_found(torch: Any, key: Callable[[Any], object]) -> None:
    assert refused(measure(keeping(torch, token=False, key=key)), "attribution", "launched nothing on the device")


@pytest.mark.parametrize("key", [by_pointer, by_nothing])
def test_a_kept_result_beside_a_kernel_is_not_found(torch: Any, key: Callable[[Any], object]) -> None:
    message = measure(keeping(torch, token=True, key=key))
    assert busy(message) > 0
    assert message["n_kernels"] == [1] * SAMPLES


def test_outputs_filled_before_the_segment_are_found(torch: Any) -> None:
    def bench(p: Any, device: str) -> Bench:
        x = torch.randn(SIZE, device=device)
        out = -x
        return Bench(
            run=lambda: (x[:1].neg(), None)[1], inputs={"x": x}, outputs={"out": out}, reference=x.double().neg
        )

    assert refused(measure(bench), "wrong", "unwritten")


def test_outputs_filled_by_the_first_call_of_the_segment_are_not_found(torch: Any) -> None:
    def bench(p: Any, device: str) -> Bench:
        x = torch.randn(SIZE, device=device)
        out = torch.empty_like(x)
        calls: list[int] = []

        def run() -> None:
            calls.append(1)
            if len(calls) == 1:
                torch.neg(x, out=out)
            x[:1].neg()

        return Bench(run=run, inputs={"x": x}, outputs={"out": out}, reference=x.double().neg)

    message = measure(bench)
    assert busy(message) > 0
    assert message["n_kernels"] == [1] * SAMPLES


# ---------------------------------------------------------------------------------------------- the timer itself


@pytest.mark.parametrize(
    "name",
    ["time.perf_counter_ns", "torch.cuda.synchronize", "cupti.cupti.activity_pop_external_correlation_id"],
)
def test_a_patched_function_of_a_library_changes_nothing(
    torch: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    honest = busy(measure(negative(torch, lambda x: torch.cuda._sleep(SPIN_CYCLES))))

    def tamper(_: Any) -> None:
        monkeypatch.setattr(name, lambda *_: 0)
        torch.cuda._sleep(SPIN_CYCLES)

    tampered = measure(negative(torch, tamper))
    monkeypatch.undo()
    assert busy(tampered) == pytest.approx(honest, rel=0.05)
    assert tampered["n_kernels"] == [2] * SAMPLES


def test_a_patched_function_of_the_timer_is_not_found(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = busy(measure(negative(torch, lambda x: torch.cuda._sleep(SPIN_CYCLES))))
    attribute = attribution.attribute

    def halved(*everything: Any) -> Any:
        segment = attribute(*everything)
        return dataclasses.replace(segment, device_busy_ns=[ns // 2 for ns in segment.device_busy_ns])

    def tamper(_: Any) -> None:
        monkeypatch.setattr("evenbench.runner.timing.cupti.timer.attribute", halved)
        torch.cuda._sleep(SPIN_CYCLES)

    assert busy(measure(negative(torch, tamper))) == pytest.approx(honest / 2, rel=0.05)
