"""Generated kernels: what the passes make of a program, and what programs compute, interpreted in numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.codegen import passes
from cases.codegen.cuda_text import cuda_text
from cases.codegen.interpret import interpret
from cases.codegen.matmul_nt import Sizes, Tile, matmul_nt
from cases.codegen.passes import SCHEDULES, local_padding, loop_partitioning, simplify
from cases.codegen.program import (
    Binary,
    Body,
    Constant,
    Guarded,
    Loop,
    Program,
    Stage,
    Variable,
    expression,
    greatest,
    value,
)

DENSE = matmul_nt("dense", Sizes(i=960, j=2304, k=770), Tile(128, 128, 4))
BATCHED = matmul_nt("batch_matmul_nt", Sizes(i=120, j=120, k=64, batch=192), Tile(128, 128, 8))
SMALL = Sizes(i=11, j=7, k=5), Tile(8, 4, 2, rows=2, columns=4)
BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


def text_of(program: Program, schedule: str) -> str:
    return cuda_text(SCHEDULES[schedule](program))


def guards(body: Body, stage: str = "") -> Iterator[tuple[str, Guarded]]:
    """All guarded statements, with the stage that they stand in."""
    for node in body:
        match node:
            case Loop(_, _, _, _, inner):
                yield from guards(inner, stage)
            case Stage(name, inner):
                yield from guards(inner, name)
            case Guarded():
                yield stage, node


def parts(body: Body, blocks: int = 1) -> Iterator[tuple[int, Body]]:
    """What blocks do, and how many of them do it."""
    for node in body:
        assert isinstance(node, Loop)
        if node.binding in BLOCKS:
            yield from parts(node.body, blocks * (node.stop - node.start))
        else:
            yield blocks, node.body


def steps(body: Body) -> list[tuple[int, bool]]:
    """The parts of the reduction: how many steps, and whether without a check."""
    return [
        (node.stop - node.start, not list(guards(node.body)))
        for node in body
        if isinstance(node, Loop) and node.binding == "serial"
    ]


def inputs(sizes: Sizes) -> tuple[Any, Any, Any]:
    """X, W, and their product."""
    random = np.random.default_rng(0)
    batch = (sizes.batch,) if sizes.batch else ()
    x, w = (random.uniform(-0.1, 0.1, (*batch, rows, sizes.k)).astype(np.float32) for rows in (sizes.i, sizes.j))
    return x, w, x.astype(np.float64) @ np.swapaxes(w, -1, -2).astype(np.float64)


def interpreted(program: Program, sizes: Sizes) -> tuple[Any, Any]:
    x, w, product = inputs(sizes)
    y = np.full(product.shape, np.nan, dtype=np.float32)
    interpret(program, {"X": x, "W": w, "Y": y})
    return y, product


# -------------------------------------------------------------------------------------------------------------- results


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Sizes, Tile]:
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    tile = Tile(
        i=rows * draw(st.integers(1, 3)),
        j=columns * draw(st.integers(1, 3)),
        k=rows * columns * draw(st.integers(1, 2)),
        rows=rows,
        columns=columns,
    )
    i, j, k = (draw(st.integers(1, 2 * extent + 1)) for extent in (tile.i, tile.j, tile.k))
    return Sizes(i, j, k, batch=draw(st.integers(0, 2))), tile


@settings(max_examples=60)
@given(workloads(), st.sampled_from(sorted(SCHEDULES)))
def test_every_schedule_computes_the_product(workload: tuple[Sizes, Tile], schedule: str) -> None:
    sizes, tile = workload
    y, product = interpreted(SCHEDULES[schedule](matmul_nt("any", sizes, tile)), sizes)
    np.testing.assert_allclose(y, product, rtol=1e-5, atol=1e-6)


@settings(max_examples=40)
@given(workloads())
def test_passes_keep_what_they_promise(workload: tuple[Sizes, Tile]) -> None:
    program = matmul_nt("any", *workload)
    assert local_padding(loop_partitioning(program)) == loop_partitioning(local_padding(program))
    for done in (simplify, loop_partitioning):
        assert done(done(program)) == done(program)
    padded = SCHEDULES["local_padding"](program)
    assert local_padding(padded) == padded
    assert "compute" not in {stage for stage, _ in guards(padded.body)}
    assert all((guard.otherwise is None) == (stage == "write-back") for stage, guard in guards(padded.body))
    for each in (padded, loop_partitioning(program)):
        assert (each.grid, each.threads, each.buffers) == (program.grid, program.threads, program.buffers)


def without(program: Program, stage: str, limit: int) -> Program:
    """The program, one predicate of it forgotten."""

    def change(body: Body, inside: str = "") -> Body:
        changed: list[Any] = []
        for node in body:
            match node:
                case Loop(_, _, _, _, inner):
                    changed.append(replace(node, body=change(inner, inside)))
                case Stage(name, inner):
                    changed.append(replace(node, body=change(inner, name)))
                case Guarded(bounds) if inside == stage:
                    changed.append(replace(node, bounds=tuple(bound for bound in bounds if bound.limit != limit)))
                case _:
                    changed.append(node)
        return tuple(changed)

    return replace(program, body=change(program.body))


@pytest.mark.parametrize("schedule", ["baseline", "loop_partitioning"])
@pytest.mark.parametrize(("stage", "axis"), [("fetch", "i"), ("fetch", "j"), ("fetch", "k"), ("write-back", "i")])
def test_a_forgotten_predicate_reaches_outside_an_array(schedule: str, stage: str, axis: str) -> None:
    sizes, tile = SMALL
    program = without(SCHEDULES[schedule](matmul_nt("any", sizes, tile)), stage, getattr(sizes, axis))
    with pytest.raises(IndexError, match=f"of an axis of {getattr(sizes, axis)}"):
        interpreted(program, sizes)


@pytest.mark.parametrize("schedule", ["baseline", "loop_partitioning"])
def test_a_forgotten_predicate_of_compute_shows_in_the_result(schedule: str) -> None:
    sizes, tile = SMALL
    y, _ = interpreted(without(SCHEDULES[schedule](matmul_nt("any", sizes, tile)), "compute", sizes.k), sizes)
    assert np.isnan(y).all()


def test_a_workspace_that_is_not_padded_shows_in_the_result() -> None:
    sizes, tile = SMALL

    def unpadded(body: Body) -> Body:
        return tuple(
            replace(node, body=unpadded(node.body))
            if isinstance(node, Loop | Stage)
            else replace(node, otherwise=None)
            if isinstance(node, Guarded)
            else node
            for node in body
        )

    padded = SCHEDULES["local_padding"](matmul_nt("any", sizes, tile))
    y, _ = interpreted(replace(padded, body=unpadded(padded.body)), sizes)
    assert np.isnan(y).all()


def test_what_threads_cannot_share_out_evenly_is_refused() -> None:
    with pytest.raises(ValueError, match="16 × 16 threads cannot share out a tile evenly"):
        Tile(120, 128, 4)
    with pytest.raises(ValueError, match="evenly"):
        Tile(16, 16, 1, rows=8, columns=3)
    with pytest.raises(ValueError, match="more than 2,147,483,647 elements"):
        matmul_nt("large", Sizes(i=1 << 16, j=1 << 15, k=4), Tile(128, 128, 4))


# --------------------------------------------------------------------------------------------------------------- claims


def test_grids_are_those_of_the_publication_and_dense_has_its_threads() -> None:
    """The rows of a thread are not the published ones, and the batched case has 128 threads of 128 outputs there."""
    assert DENSE.grid == (18, 8, 1)
    assert BATCHED.grid == (1, 1, 192)
    assert DENSE.threads == BATCHED.threads == 256
    for program in (DENSE, BATCHED):
        assert {buffer.name: buffer.shape for buffer in program.buffers}["sums"] == (8, 8)


@pytest.mark.parametrize("program", [DENSE, BATCHED], ids=lambda program: program.name)
def test_the_baseline_has_predicates_in_all_three_stages(program: Program) -> None:
    assert {stage for stage, _ in guards(simplify(program).body)} == {"fetch", "compute", "write-back"}


@pytest.mark.parametrize("schedule", ["loop_partitioning", "padding_and_partitioning"])
def test_most_blocks_and_steps_of_dense_run_without_checks(schedule: str) -> None:
    main, rest = parts(SCHEDULES[schedule](DENSE).body)
    assert (main[0], rest[0]) == (126, 18)
    assert steps(main[1]) == [(192, True), (1, False)]
    assert steps(rest[1]) == [(192, False), (1, False)]
    assert [stage for stage, _ in guards(main[1]) if stage == "write-back"] == []
    assert [stage for stage, _ in guards(rest[1]) if stage == "write-back"] != []


@pytest.mark.parametrize("schedule", ["baseline", "local_padding"])
def test_without_partitioning_every_block_checks(schedule: str) -> None:
    ((blocks, body),) = parts(SCHEDULES[schedule](DENSE).body)
    assert blocks == 144
    assert steps(body) == [(193, False)]


def test_partitioning_leaves_the_batched_text_as_it_is() -> None:
    texts = {schedule: text_of(BATCHED, schedule) for schedule in SCHEDULES}
    assert texts["loop_partitioning"] == texts["baseline"]
    assert texts["padding_and_partitioning"] == texts["local_padding"] != texts["baseline"]


@pytest.mark.parametrize("schedule", ["loop_partitioning", "padding_and_partitioning"])
def test_the_main_part_of_dense_has_no_predicate_in_its_text(schedule: str) -> None:
    text = text_of(DENSE, schedule)
    main, rest = text.split("    } else {\n")
    loop, last = main.split("const int k_tile = 192;")
    assert loop.count("if (") == 1
    assert "if (i_tile < 7) {" in loop
    assert "for (int k_tile = 0; k_tile < 192; ++k_tile) {" in loop
    for limit in ("960", "770"):
        assert f"< {limit}" not in loop
        assert f"< {limit}" in rest
    assert "?" not in loop
    assert "< 770" in last
    assert "< 960" not in last


def test_texts_grow_with_partitioning_and_shrink_with_padding() -> None:
    lengths = {schedule: len(text_of(DENSE, schedule)) for schedule in SCHEDULES}
    assert lengths["local_padding"] < lengths["baseline"]
    assert lengths["loop_partitioning"] > 2.5 * lengths["baseline"]
    assert lengths["padding_and_partitioning"] > 2.5 * lengths["local_padding"]


@pytest.mark.parametrize("split", [("serial",), ("blockIdx.y",), ()])
def test_a_changed_pass_changes_the_text(split: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    before = {schedule: text_of(DENSE, schedule) for schedule in SCHEDULES}
    monkeypatch.setattr(passes, "SPLIT", split)
    changed = {schedule for schedule in SCHEDULES if text_of(DENSE, schedule) != before[schedule]}
    assert changed == {"loop_partitioning", "padding_and_partitioning"}


@pytest.mark.parametrize("short", [1, 2, 3])
def test_the_last_tile_is_split_off_however_little_it_lacks(short: int) -> None:
    program = matmul_nt("any", Sizes(i=128, j=128, k=16 - short), Tile(128, 128, 4))
    [(_, block)] = parts(SCHEDULES["loop_partitioning"](program).body)
    assert steps(block) == [(3, True), (1, False)]


def test_axes_of_threads_are_not_split() -> None:
    whole = matmul_nt("one", Sizes(i=7, j=7, k=3), Tile(8, 8, 4, rows=2, columns=2))
    assert loop_partitioning(whole) == simplify(whole)


def test_two_ragged_axes_of_blocks_give_four_parts() -> None:
    program = loop_partitioning(matmul_nt("ragged", Sizes(i=17, j=9, k=8), Tile(8, 8, 4, rows=2, columns=2)))
    assert [blocks for blocks, _ in parts(program.body)] == [2, 2, 1, 1]
    assert [steps(body) for _, body in parts(program.body)] == [[(2, True)], [(2, False)], [(2, False)], [(2, False)]]


# ---------------------------------------------------------------------------------------------------------- expressions

VARIABLES = {"a": 5, "b": 3}


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Any:
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from([Variable("a"), Variable("b"), Constant(7)]))
    left = draw(expressions(depth - 1))
    if draw(st.booleans()):
        return draw(st.sampled_from([left // 2, left % 3]))
    right = draw(expressions(depth - 1))
    return draw(st.sampled_from([left + right, left * right]))


@given(expressions(), st.integers(0, 5), st.integers(0, 3))
def test_no_value_is_greater_than_the_greatest(of: Any, a: int, b: int) -> None:
    assert 0 <= value(of, {"a": a, "b": b}) <= greatest(of, VARIABLES)


@given(expressions())
def test_the_text_of_an_expression_means_what_it_is(of: Any) -> None:
    from cases.codegen.cuda_text import _text

    def tree(text: str) -> Any:
        """The expression, read by Python, whose `//` binds as C's `/` does."""
        import ast

        operators = {ast.Add: "+", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}

        def built(node: ast.expr) -> Any:
            match node:
                case ast.BinOp(left, operator, right):
                    return Binary(operators[type(operator)], built(left), built(right))  # type: ignore[arg-type]
                case ast.Name(name):
                    return Variable(name)
                case ast.Constant(int() as number):
                    return expression(number)
            raise AssertionError(ast.dump(node))

        return built(ast.parse(text.replace("/", "//"), mode="eval").body)

    read = tree(_text(of))
    for a in range(4):
        assert value(read, {"a": a, "b": 3}) == value(of, {"a": a, "b": 3})
