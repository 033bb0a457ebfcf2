"""What scripts and case authors call themselves: a backward pass on this thread, and the bare timer."""

from __future__ import annotations

import gc
import inspect
import re
import subprocess
import sys
import threading
import weakref
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest

import evenbench
from evenbench import runner
from evenbench.runner.case.declare import Bench, Implementation, case
from evenbench.runner.errors import TimerUnavailable, UsageError
from evenbench.runner.timing.protocol import Segment
from evenbench.runner.worker.launch import helpers
from evenbench.runner.worker.launch.bench import open_case

ROOT = Path(__file__).parents[4]


def spin(rounds: int) -> int:
    return sum(range(rounds))


# ----------------------------------------------------------------------------------------------------- how it is loaded


def test_the_public_names_are_the_helpers() -> None:
    for name in ("Timing", "backward_of", "bench_kernel"):
        assert getattr(evenbench, name) is getattr(runner, name) is getattr(helpers, name)
    assert sorted(evenbench.__all__) == sorted(runner.__all__)
    assert all(hasattr(evenbench, name) for name in evenbench.__all__)


@pytest.mark.parametrize("module", [evenbench, runner])
def test_other_names_are_missing_as_ever(module: Any) -> None:
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'bench'"):
        _ = module.bench


def run_python(program: str) -> str:
    command = [sys.executable, "-I", "-S", "-c", program]  # without site-packages: the standard library alone
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_importing_evenbench_loads_no_instrument() -> None:
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import evenbench; "
    assert (
        run_python(
            program
            + "print([m for m in sys.modules if m.startswith(('evenbench.runner.timing', 'evenbench.runner.worker'))])"
        )
        == "[]"
    )
    assert (
        run_python(program + "from evenbench import bench_kernel; print(bench_kernel.__module__)")
        == "evenbench.runner.worker.launch.helpers"
    )


HELPERS = "evenbench.worker.launch.helpers"


def test_in_a_launch_the_helpers_come_from_the_folder_named_evenbench() -> None:
    program = (
        "import runpy; start = runpy.run_path({file!r}, run_name='start'); start['load_evenbench'](); "
        "from evenbench import backward_of, bench_kernel; import sys; "
        "print(bench_kernel.__module__, backward_of.__module__, 'runner' in sys.modules)"
    ).format(file=str(ROOT / "runner/worker/__main__.py"))
    assert run_python(program) == f"{HELPERS} {HELPERS} False"


# --------------------------------------------------------------------------------------------------------- bench_kernel


def test_on_a_cpu_the_host_is_the_timer() -> None:
    timing = helpers.bench_kernel(spin, (1_000,), measure_ms=5, warmup_ms=1, cache="warm", device="cpu")
    assert (timing.timer, timing.cache, timing.n_kernels, timing.rejected) == ("host", "warm", None, 0)
    assert 10 <= len(timing.samples_ns) <= 200
    assert 0 < min(timing.samples_ns) <= timing.p10_ns <= timing.median_ns <= timing.p90_ns <= max(timing.samples_ns)
    assert timing.latency_ns == timing.median_ns
    assert "µs" in str(timing)
    assert "host, warm cache" in str(timing)
    with pytest.raises(FrozenInstanceError):
        timing.batch = 2  # type: ignore[misc]


def test_a_call_shorter_than_the_clock_is_batched_unless_it_must_be_reset() -> None:
    assert helpers.bench_kernel(int, measure_ms=1, warmup_ms=1, cache="warm", device="cpu").batch > 1
    calls: list[str] = []
    alone = helpers.bench_kernel(
        lambda: calls.append("call"),
        measure_ms=1,
        warmup_ms=1,
        cache="warm",
        device="cpu",
        reset=lambda: calls.append("reset"),
    )
    assert alone.batch == 1
    assert calls == ["reset", "call"] * (len(calls) // 2)


def test_collection_is_off_in_a_sample_and_on_again_afterwards() -> None:
    seen: set[bool] = set()
    assert gc.isenabled()
    helpers.bench_kernel(lambda: seen.add(gc.isenabled()), measure_ms=1, warmup_ms=1, cache="warm", device="cpu")
    assert seen == {False}
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        helpers.bench_kernel(lambda: 1 // 0, cache="warm", device="cpu")
    assert gc.isenabled()


def test_what_cannot_be_timed_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="cache='hot' must be cold or warm"):
        helpers.bench_kernel(spin, (1,), cache="hot", device="cpu")
    with pytest.raises(TimerUnavailable, match="hint"):
        helpers.bench_kernel(spin, (1,), timer="cupti", cache="warm", device="cpu")


def test_deciles_and_kernels_of_a_timing() -> None:
    segment = Segment(
        indices=list(range(11)),
        device_busy_ns=list(range(100, 1_200, 100)),
        latency_ns=list(range(200, 1_300, 100)),
        n_kernels=[3] * 10 + [4],
        uncounted_copy_ns=[0] * 11,
        rejected=[(11, "late")],
    )
    timing = helpers._timing(segment, "cupti", "cold")
    assert (timing.p10_ns, timing.median_ns, timing.p90_ns, timing.latency_ns) == (200, 600, 1_000, 700)
    assert (timing.n_kernels, timing.rejected, timing.batch) == (3, 1, 1)
    assert str(timing) == "0.60 µs [0.20, 1.00] (cupti, cold cache, 11 samples, 3 kernels a call)"
    once = replace(timing, samples_ns=(600,), n_kernels=1)
    assert str(once) == "0.60 µs [0.20, 1.00] (cupti, cold cache, 1 sample, 1 kernel a call)"
    assert str(replace(once, n_kernels=None)) == "0.60 µs [0.20, 1.00] (cupti, cold cache, 1 sample)"


def test_the_device_is_where_the_arguments_lie() -> None:
    class At:
        def __init__(self, device: str) -> None:
            self.device = device

    assert helpers._device_of([At("cpu"), 3]) == "cpu"
    assert helpers._device_of([At("cpu"), At("cuda:0"), 3]) == "cuda:0"


# ---------------------------------------------------------------------------------------------------------- backward_of


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_the_gradients_are_those_of_the_engine(torch: Any) -> None:
    x, weight = (torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in ((8, 16), (16,)))
    out = torch.nn.functional.layer_norm(x, (16,), weight)
    grad = torch.randn_like(out)
    backward = helpers.backward_of(out, grad)
    for _ in range(2):  # nothing is used up
        found = backward()
        assert [each.requires_grad for each in found] == [False, False]
    assert x.grad is None
    for one, other in zip(found, torch.autograd.grad(out, (x, weight), grad), strict=True):
        assert torch.equal(one, other)


def test_the_gradient_of_out_is_ones_where_none_is_given(torch: Any) -> None:
    x = torch.randn(4, requires_grad=True)
    assert torch.equal(helpers.backward_of(x.sin())(), x.detach().cos())


def test_an_output_among_several_gets_its_own_gradient(torch: Any) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    found = helpers.backward_of(x.unbind(0)[1])()
    assert torch.equal(found, torch.tensor([[0.0] * 4, [1.0] * 4, [0.0] * 4]))


def test_it_runs_on_the_calling_thread(torch: Any) -> None:
    threads: list[int] = []

    class Square(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            threads.append(threading.get_ident())
            return 2 * ctx.saved_tensors[0] * grad

    x = torch.randn(4, requires_grad=True)
    assert torch.equal(helpers.backward_of(Square.apply(x))(), 2 * x.detach())
    assert threads == [threading.get_ident()]


def saving(torch: Any, way: str) -> Any:
    """A function of x and y that keeps an intermediate, by `save_for_backward` or as an attribute, as Triton libraries do."""

    class Saving(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            wide = x.exp()
            if way == "saved":
                ctx.save_for_backward(wide, y)
            else:
                ctx.wide, ctx.y = wide, y
            out = wide * y
            return (out,) if way == "tuple" else out

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            wide, y = ctx.saved_tensors if way == "saved" else (ctx.wide, ctx.y)
            return grad * wide * y, grad * wide

    return Saving


@pytest.mark.parametrize("way", ["saved", "attribute", "tuple"])
def test_an_intermediate_outlives_the_result_that_the_case_lets_go_of(torch: Any, way: str) -> None:
    x, y = (torch.randn(64, requires_grad=True) for _ in range(2))
    out = saving(torch, way).apply(x, y)
    (out,) = out if isinstance(out, tuple) else (out,)
    expected = torch.autograd.grad(out, (x, y), torch.ones_like(out), retain_graph=True)
    graph, pointer = weakref.ref(out), out.data_ptr()
    backward = helpers.backward_of(out)
    del out
    gc.collect()
    # torch 2.11 frees what was saved when the last reference to `out` goes; newer ones keep it with the node.
    kept = graph()
    assert kept is not None
    assert kept.data_ptr() == pointer  # as it is, not as a copy
    del kept
    for _ in range(50):
        found = backward()
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert x.grad is y.grad is None
    assert isinstance(hash(backward), int)
    assert "tensor" not in repr(backward)
    del backward
    gc.collect()
    assert graph() is None  # and no longer than the call


def test_calls_leave_no_gradient_behind(torch: Any) -> None:
    x, y = (torch.randn(64, requires_grad=True) for _ in range(2))
    backward = helpers.backward_of(saving(torch, "saved").apply(x, y))
    made = [weakref.ref(each) for _ in range(20) for each in backward()]
    assert [each for each in made if each() is not None] == []
    assert x.grad is y.grad is None


def test_an_output_among_several_outlives_the_others(torch: Any) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    backward = helpers.backward_of(x.exp().detach().requires_grad_().unbind(0)[2])
    gc.collect()
    for _ in range(5):
        assert torch.equal(backward(), torch.tensor([[0.0] * 4, [0.0] * 4, [1.0] * 4]))


def test_a_launch_keeps_what_a_case_hands_to_it(torch: Any) -> None:
    """The case function has returned, and all that it named is gone, when its call is timed."""

    def bench(p: Any, device: str) -> Bench:
        x, y = (torch.randn(64, requires_grad=True) for _ in range(2))
        return Bench(
            implementations={
                "plain": helpers.backward_of(saving(torch, "saved").apply(x, y)),
                "made": Implementation(lambda: helpers.backward_of(saving(torch, "saved").apply(x, y))),
            },
            inputs={"x": x.detach(), "y": y.detach()},
            baseline="plain",
            reference=lambda: ((x.exp() * y).detach(), x.exp().detach()),
        )

    (point,) = case("helpers/kept", rtol=1e-5, atol=1e-5)(bench).points
    opened = open_case(point, "cpu")
    reference = opened.reference()
    for runnable in [opened.make(name) for name in opened.names]:
        gc.collect()
        for _ in range(3):
            opened.checked_call(runnable, reference, opened.inputs_checksum())


def test_what_it_cannot_drive_is_refused_with_the_mend(torch: Any) -> None:
    x = torch.randn(4, requires_grad=True)
    with pytest.raises(UsageError, match=r"CosBackward0 after SinBackward0.*set_multithreading_enabled\(False\)"):
        helpers.backward_of(x.sin().cos())
    for without in (torch.randn(4), x.detach().sin(), x):
        with pytest.raises(UsageError, match="no grad_fn.*requires_grad=True"):
            helpers.backward_of(without)

    class Two(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x + 1, x + 2

        @staticmethod
        def backward(ctx: Any, one: Any, two: Any) -> Any:
            raise AssertionError

    with pytest.raises(UsageError, match="TwoBackward has 2 outputs"):
        helpers.backward_of(Two.apply(x)[0])


def test_the_mend_for_a_chain_gives_the_same_gradients_call_after_call(torch: Any) -> None:
    x = torch.randn(4, requires_grad=True)
    out = x.sin().cos()
    with pytest.raises(UsageError, match=r"torch\.autograd\.grad\(out, inputs, grad, retain_graph=True\)"):
        helpers.backward_of(out)
    for _ in range(3):
        with torch.autograd.set_multithreading_enabled(False):
            (found,) = torch.autograd.grad(out, [x], torch.ones_like(out), retain_graph=True)
        assert torch.allclose(found, -x.detach().sin().sin() * x.detach().cos())
    assert x.grad is None


# ------------------------------------------------------------------------------------------------- what timing.md says


def test_every_situation_of_timing_md_names_its_tests_and_every_test_is_named() -> None:
    text = (ROOT / "docs/timing.md").read_text(encoding="utf-8")
    situations = re.findall(r"^### (\d)\. .*?(?=^###? |\Z)", text, re.MULTILINE | re.DOTALL)
    assert situations == list("12345678")
    parts = re.findall(r"^### \d\. .*?(?=^###? |\Z)", text, re.MULTILINE | re.DOTALL)
    named = [re.findall(r"`(test_\w+)`", part) for part in parts]
    assert all(named)
    assert all("*Ignored:*" in part and "*Do:*" in part for part in parts)
    tests = re.findall(r"^def (test_\w+)", (ROOT / "tests/gpu/test_situations.py").read_text(), re.MULTILINE)
    assert sorted(name for names in named for name in names) == sorted(tests)


def test_timing_md_names_every_field_and_argument() -> None:
    text = (ROOT / "docs/timing.md").read_text(encoding="utf-8")
    for name in [field.name for field in fields(helpers.Timing)]:
        assert f"`{name}`" in text
    for name in inspect.signature(helpers.bench_kernel).parameters:
        assert re.search(rf"\b{name}\b", text), name
