"""This project's own cases: they build, are right, are honest about their work, and would notice a wrong result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evenbench.runner.case.check import check_result, checksum, describe, poison, seed_everything, unwritten
from evenbench.runner.case.declare import Bench, GridPoint, Implementation
from evenbench.runner.case.discover import load, points_of
from evenbench.runner.errors import WrongResult

torch = pytest.importorskip("torch")

FOUND = load(Path(__file__).parents[2] / "cases")
POINTS = [point for point in points_of(FOUND) if point.case.file.startswith(("ops/", "host/"))]


def tagged(*tags: str) -> list[Any]:
    return [pytest.param(point, id=point.id) for point in POINTS if point.case.tags & set(tags)]


def build(point: GridPoint, device: str) -> Bench:
    seed_everything(point.seed)
    bench = point.case.function(point.params, device)
    assert isinstance(bench, Bench)
    return bench


def first_call(bench: Bench) -> Callable[[], Any]:
    """What a case with one implementation runs, or its baseline."""
    found = bench.run or (bench.implementations or {})[bench.baseline or ""]
    assert not isinstance(found, Implementation)
    return found


def other_calls(bench: Bench) -> dict[str, Callable[[], Any]]:
    """What can be made of the implementations beside the baseline."""
    calls: dict[str, Callable[[], Any]] = {}
    for name, one in (bench.implementations or {}).items():
        if name == bench.baseline:
            continue
        try:
            calls[name] = one.make() if isinstance(one, Implementation) else one
        except ImportError as error:
            assert str(error)  # noqa: PT017 - it becomes the reason in the row
    return calls


def checked(point: GridPoint, device: str) -> tuple[Any, Any]:
    """The result and its reference, after everything that a launch checks, for every implementation."""
    bench = build(point, device)
    assert bench.reference is not None
    assert bench.inputs
    before = describe(bench.inputs)
    poison(bench.outputs)
    result = first_call(bench)()
    assert unwritten(bench.outputs) == []
    reference = bench.reference()
    check_result(result, reference, point.case.rtol, point.case.atol)
    for call in other_calls(bench).values():
        check_result(call(), reference, point.case.rtol, point.case.atol)
    assert describe(bench.inputs) == before
    assert describe(build(point, device).inputs) == before
    return result, reference


def test_the_suites_are_what_they_are_meant_to_be() -> None:
    assert [broken for broken in FOUND.broken if broken.file.startswith(("ops/", "host/"))] == []
    assert len(tagged("pr")) == 27
    assert len({point.case.name for point in POINTS if "pr" in point.case.tags}) == 13
    for tag, prefix in (("pr", "ops/"), ("small", "ops/"), ("host", "host/"), ("impl", "ops/impl/")):
        assert all(param.values[0].id.startswith(prefix) for param in tagged(tag))
    assert len(tagged("pr", "small", "host", "impl")) == len(POINTS)
    assert not [point for point in POINTS if {"pr", "impl"} <= point.case.tags]
    assert len({point.id for point in POINTS}) == len(POINTS)


def test_every_operation_has_a_small_size_and_two_others() -> None:
    for name in {point.case.name for point in POINTS}:
        sizes = [point.case.tags for point in POINTS if point.case.name == name]
        assert len([tags for tags in sizes if "small" not in tags]) >= 2
        assert name.startswith("host/") or [tags - {"impl"} for tags in sizes if "small" in tags] == [{"small"}]


@pytest.mark.parametrize("point", tagged("impl"))
def test_a_case_of_implementations_has_two_at_least(point: GridPoint) -> None:
    bench = build(point, "meta")
    assert bench.implementations is not None
    assert len(bench.implementations) >= 2
    assert bench.baseline == "torch"
    made = [one for one in bench.implementations.values() if isinstance(one, Implementation)]
    assert all(not one.requires or one.requires == ("triton",) for one in made)


def test_what_needs_a_gpu_says_so_on_a_cpu() -> None:
    (point,) = (point for point in POINTS if point.case.name == "ops/impl/rms_norm" and "small" in point.case.tags)
    implementations = build(point, "cpu").implementations or {}
    for name in ("compiled", "triton"):
        one = implementations[name]
        assert isinstance(one, Implementation)
        with pytest.raises(ImportError, match="for GPUs only"):
            one.make()


def test_every_case_says_what_it_does() -> None:
    assert all(point.case.title.endswith(".") for point in POINTS)


@pytest.mark.parametrize("point", tagged("small", "host"))
def test_results_equal_their_references(point: GridPoint) -> None:
    result, reference = checked(point, "cpu")
    wrong = result.copy() if "host" in point.case.tags else result.clone()
    wrong.reshape(-1)[-1] += abs(wrong).max()
    with pytest.raises(WrongResult, match=r"1 of \d+ elements"):
        check_result(wrong, reference, point.case.rtol, point.case.atol)


@pytest.mark.parametrize("point", tagged("small", "host"))
def test_results_repeat(point: GridPoint) -> None:
    first, second = build(point, "cpu"), build(point, "cpu")
    call, other = first_call(first), first_call(second)
    assert checksum(call()) == checksum(call()) == checksum(other())


@pytest.mark.parametrize("point", tagged("pr", "small", "host", "impl"))
def test_work_counts_no_byte_twice(point: GridPoint) -> None:
    """On torch's meta device: shapes without data, so that the large sizes cost nothing."""
    bench = build(point, "meta")
    assert bench.work is not None
    assert bench.inputs is not None
    assert bench.work.bytes_written == first_call(bench)().nbytes
    read = sum(value.nbytes for value in bench.inputs.values())
    if point.case.name == "ops/embedding":  # reads part of its table
        assert 0 < bench.work.bytes_read < read
    else:
        assert bench.work.bytes_read == read
    assert read < 2**30
    assert bench.work.flops > 0 or point.case.name in ("ops/embedding", "ops/transpose", "host/sort")
    assert bench.work.matrix == (point.case.name in ("ops/matmul", "ops/sdpa", "ops/impl/sdpa"))
    assert bench.work.dtype == point.params.get("dtype", "float64")


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")  # torch.compile warns of its own defaults
@pytest.mark.parametrize("point", tagged("pr", "small", "impl"))
def test_results_equal_their_references_on_the_gpu(point: GridPoint) -> None:
    torch.cuda.reset_peak_memory_stats()
    checked(point, "cuda")
    assert torch.cuda.max_memory_allocated() < 8 * 2**30
