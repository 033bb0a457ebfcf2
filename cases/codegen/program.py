"""A tile-level loop program: loops, predicates and statements, and the integer expressions that they compute with.

Every variable and expression is at least 0, so an upper bound is all that a pass has to know of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Stages = Literal["fetch", "compute", "write-back"]
Memory = Literal["global", "shared", "registers"]
Binding = Literal["blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "serial", "unrolled"]


@dataclass(frozen=True)
class Expression:
    """A whole number of 0 or more."""

    def __add__(self, other: Expression | int) -> Expression:
        return Binary("+", self, expression(other))

    def __mul__(self, other: Expression | int) -> Expression:
        return Binary("*", self, expression(other))

    def __floordiv__(self, other: int) -> Expression:
        return Binary("/", self, Constant(other))

    def __mod__(self, other: int) -> Expression:
        return Binary("%", self, Constant(other))


@dataclass(frozen=True)
class Constant(Expression):
    """A literal."""

    value: int


@dataclass(frozen=True)
class Variable(Expression):
    """What a loop counts, or a `Let` names."""

    name: str


@dataclass(frozen=True)
class Binary(Expression):
    """An operation; what `/` and `%` divide by is a constant."""

    operator: Literal["+", "*", "/", "%"]
    left: Expression
    right: Expression


def expression(value: Expression | int) -> Expression:
    """A literal made an expression."""
    return Constant(value) if isinstance(value, int) else value


@dataclass(frozen=True)
class Buffer:
    """An array of float32, row-major. What lies in global memory is an argument of the kernel."""

    name: str
    shape: tuple[int, ...]
    memory: Memory
    written: bool = False


@dataclass(frozen=True)
class Element:
    """One element of a buffer."""

    buffer: str
    indices: tuple[Expression, ...]


@dataclass(frozen=True)
class Assign:
    """Copies an element; None stands for zero."""

    to: Element
    value: Element | None


@dataclass(frozen=True)
class MultiplyAdd:
    """Adds a product of two elements to a third."""

    to: Element
    left: Element
    right: Element


Statement: TypeAlias = Assign | MultiplyAdd


@dataclass(frozen=True)
class Bound:
    """Holds where the index lies below the limit, which is the extent of an axis."""

    index: Expression
    limit: int


@dataclass(frozen=True)
class Guarded:
    """A statement that runs where all bounds hold, and another that runs where they do not."""

    bounds: tuple[Bound, ...]
    then: Statement
    otherwise: Assign | None = None


@dataclass(frozen=True)
class Let:
    """Names a value for what follows in the same body."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Barrier:
    """All threads of a block wait for each other."""


@dataclass(frozen=True)
class Loop:
    """Counts from `start` up to `stop`, by blocks, by threads, or one after the other.

    Two loops of one variable may follow each other: together they are one loop that was split.
    """

    variable: str
    start: int
    stop: int
    binding: Binding
    body: Body


@dataclass(frozen=True)
class Stage:
    """What a step does with a tile: fetch it to shared memory, compute in registers, write back."""

    name: Stages
    body: Body


Node: TypeAlias = Loop | Stage | Let | Guarded | Barrier | Assign | MultiplyAdd
Body: TypeAlias = tuple[Node, ...]


@dataclass(frozen=True)
class Program:
    """A kernel.

    Args:
        name: of the kernel. The schedule is no part of it: equal programs have equal texts.
        title: what it computes, in a line.
        buffers: arguments in their order, then workspaces.
        body: all that it does, loops over blocks first.
    """

    name: str
    title: str
    buffers: tuple[Buffer, ...]
    body: Body

    def extent(self, binding: Binding) -> int:
        """How many blocks, or threads, there are along a dimension of the launch."""
        return max((loop.stop for loop in loops(self.body) if loop.binding == binding), default=1)

    @property
    def grid(self) -> tuple[int, int, int]:
        """The blocks of a launch."""
        return self.extent("blockIdx.x"), self.extent("blockIdx.y"), self.extent("blockIdx.z")

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.extent("threadIdx.x")


def loops(body: Body) -> Iterator[Loop]:
    """All loops, the outer ones first."""
    for node in body:
        if isinstance(node, Loop):
            yield node
        if isinstance(node, Loop | Stage):
            yield from loops(node.body)


def value(of: Expression, variables: Mapping[str, Any]) -> Any:
    """What an expression comes to; variables may be arrays, one number for each thread."""
    match of:
        case Constant(number):
            return number
        case Variable(name):
            return variables[name]
        case Binary(operator, left, right):
            a, b = value(left, variables), value(right, variables)
            match operator:
                case "+":
                    return a + b
                case "*":
                    return a * b
                case "/":
                    return a // b
                case "%":
                    return a % b
    raise TypeError(f"{of!r} is no expression")


def greatest(of: Expression, known: Mapping[str, int]) -> int:
    """No value of an expression is greater, when no variable is greater than what is known of it."""
    match of:
        case Binary("%", left, Constant(divisor)):
            return min(greatest(left, known), divisor - 1)
        case Binary(operator, left, right):
            return int(value(Binary(operator, Constant(greatest(left, known)), Constant(greatest(right, known))), {}))
        case _:
            return int(value(of, known))
