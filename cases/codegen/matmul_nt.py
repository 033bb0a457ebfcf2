"""Y[b, i, j] = sum over k of X[b, i, k] · W[b, j, k], as a loop program with a predicate in each of its stages."""

from __future__ import annotations

from dataclasses import dataclass

from .program import (
    Assign,
    Barrier,
    Body,
    Bound,
    Buffer,
    Element,
    Expression,
    Guarded,
    Let,
    Loop,
    MultiplyAdd,
    Program,
    Stage,
    Variable,
)

INT_MAX = 2**31 - 1  # the kernels count elements in 32 bits


@dataclass(frozen=True)
class Sizes:
    """Extents of the axes; a batch of 0 has no such axis."""

    i: int
    j: int
    k: int
    batch: int = 0


@dataclass(frozen=True)
class Tile:
    """What a block computes at a time, and the rows and columns of its threads.

    Raises ValueError where threads cannot share it out evenly.
    """

    i: int
    j: int
    k: int
    rows: int = 16
    columns: int = 16

    def __post_init__(self) -> None:
        uneven = self.i % self.rows or self.j % self.columns
        if uneven or self.i * self.k % self.threads or self.j * self.k % self.threads:
            raise ValueError(f"{self.rows} × {self.columns} threads cannot share out a tile evenly: {self}")

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows * self.columns


def matmul_nt(name: str, sizes: Sizes, tile: Tile) -> Program:
    """The program, every predicate in place.

    Raises ValueError where an array has too many elements for the kernel's integers.
    """
    extents = {"X": (sizes.i, sizes.k), "W": (sizes.j, sizes.k), "Y": (sizes.i, sizes.j)}
    batch = (sizes.batch,) if sizes.batch else ()
    if max((sizes.batch or 1) * rows * columns for rows, columns in extents.values()) > INT_MAX:
        raise ValueError(f"arrays of {sizes} have more than {INT_MAX:,} elements")
    axes = "b, " if batch else ""
    shape = " x ".join(str(extent) for extent in (*batch, sizes.i, sizes.j, sizes.k))
    return Program(
        name=name,
        title=f"Y[{axes}i, j] = sum over k of X[{axes}i, k] * W[{axes}j, k], {shape}, by tiles of {tile.i} x {tile.j} x {tile.k}",
        buffers=(
            *(Buffer(array, (*batch, *extents[array]), "global", written=array == "Y") for array in ("X", "W", "Y")),
            Buffer("X_tile", (tile.k, tile.i), "shared"),
            Buffer("W_tile", (tile.k, tile.j), "shared"),
            Buffer("sums", (tile.i // tile.rows, tile.j // tile.columns), "registers"),
        ),
        body=_blocks(sizes, tile),
    )


def _blocks(sizes: Sizes, tile: Tile) -> Body:
    """One block for each tile of Y."""
    steps = (
        Loop("k_tile", 0, -(-sizes.k // tile.k), "serial", _step(sizes, tile)),
        Stage("write-back", _outputs(tile, _write_back(sizes, tile))),
    )
    work: Body = (*_outputs(tile, (Assign(_sum(), None),)), *steps)
    work = (Loop("thread", 0, tile.threads, "threadIdx.x", work),)
    work = (Loop("j_tile", 0, -(-sizes.j // tile.j), "blockIdx.x", work),)
    work = (Loop("i_tile", 0, -(-sizes.i // tile.i), "blockIdx.y", work),)
    return (Loop("b", 0, sizes.batch, "blockIdx.z", work),) if sizes.batch else work


def _step(sizes: Sizes, tile: Tile) -> Body:
    """One tile of the reduction."""
    fetch = (
        _fetch("X", Variable("i_tile") * tile.i, tile.i, sizes.i, sizes, tile),
        _fetch("W", Variable("j_tile") * tile.j, tile.j, sizes.j, sizes, tile),
    )
    compute = Loop("kk", 0, tile.k, "unrolled", _outputs(tile, _compute(sizes, tile)))
    return Stage("fetch", fetch), Barrier(), Stage("compute", (compute,)), Barrier()


def _fetch(array: str, first: Expression, rows: int, extent: int, sizes: Sizes, tile: Tile) -> Loop:
    """Global to shared memory, transposed; neighbouring threads read neighbouring elements of a row."""
    row, column = Variable("row"), Variable("column")
    at, k = first + row, Variable("k_tile") * tile.k + column
    copy = Assign(Element(f"{array}_tile", (column, row)), Element(array, _batched(sizes, at, k)))
    element = Variable("n") * tile.threads + Variable("thread")
    return Loop(
        "n",
        0,
        rows * tile.k // tile.threads,
        "unrolled",
        (
            Let("row", element // tile.k),
            Let("column", element % tile.k),
            Guarded((Bound(at, extent), Bound(k, sizes.k)), copy),
        ),
    )


def _compute(sizes: Sizes, tile: Tile) -> Body:
    """Shared memory to registers."""
    kk = Variable("kk")
    row, column = _place(tile)
    bounds = (*_inside(sizes, tile), Bound(Variable("k_tile") * tile.k + kk, sizes.k))
    return (Guarded(bounds, MultiplyAdd(_sum(), Element("X_tile", (kk, row)), Element("W_tile", (kk, column)))),)


def _write_back(sizes: Sizes, tile: Tile) -> Body:
    """Registers to global memory."""
    bounds = _inside(sizes, tile)
    return (Guarded(bounds, Assign(Element("Y", _batched(sizes, *(bound.index for bound in bounds))), _sum())),)


def _outputs(tile: Tile, body: Body) -> Body:
    """The body for each output of a thread."""
    inner = Loop("jj", 0, tile.j // tile.columns, "unrolled", body)
    return (Loop("ii", 0, tile.i // tile.rows, "unrolled", (inner,)),)


def _place(tile: Tile) -> tuple[Expression, Expression]:
    """Row and column, within the tile, of an output of a thread: neighbouring threads have neighbouring columns."""
    thread = Variable("thread")
    row = Variable("ii") * tile.rows + thread // tile.columns
    return row, Variable("jj") * tile.columns + thread % tile.columns


def _inside(sizes: Sizes, tile: Tile) -> tuple[Bound, Bound]:
    """Where an output of a thread lies in Y."""
    row, column = _place(tile)
    return Bound(Variable("i_tile") * tile.i + row, sizes.i), Bound(Variable("j_tile") * tile.j + column, sizes.j)


def _batched(sizes: Sizes, *indices: Expression) -> tuple[Expression, ...]:
    return (Variable("b"), *indices) if sizes.batch else indices


def _sum() -> Element:
    return Element("sums", (Variable("ii"), Variable("jj")))
