"""A program → the text of a CUDA C++ kernel, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from .program import (
    Assign,
    Barrier,
    Binary,
    Body,
    Bound,
    Buffer,
    Constant,
    Element,
    Expression,
    Guarded,
    Let,
    Loop,
    MultiplyAdd,
    Node,
    Program,
    Stage,
    Statement,
    Variable,
    loops,
)

TEMPLATE = "kernel.cu.j2"
INDENT = "    "
PRECEDENCE: Mapping[str, int] = MappingProxyType({"+": 1, "*": 2, "/": 2, "%": 2})


def cuda_text(program: Program) -> str:
    """The kernel as CUDA C++. The template frames it; loops and statements are written here."""
    import jinja2  # here, so that these cases can be listed where it is not installed

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - C++, not HTML
    )
    return environment.get_template(TEMPLATE).render(
        name=program.name,
        title=program.title,
        threads=program.threads,
        arguments=[_argument(buffer) for buffer in program.buffers if buffer.memory == "global"],
        workspaces=[buffer for buffer in program.buffers if buffer.memory != "global"],
        bound={loop.variable: loop.binding for loop in loops(program.body) if _is_bound(loop)},
        lines=list(_Writer(program.buffers).body(program.body)),
    )


def _argument(buffer: Buffer) -> str:
    return f"{'' if buffer.written else 'const '}float* __restrict__ {buffer.name}"


def _is_bound(loop: Loop) -> bool:
    """Whether the launch counts, and not the text."""
    return loop.binding not in ("serial", "unrolled")


class _Writer:
    """Writes bodies as lines. Global arrays have one index, so their shapes must be known."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._buffers = {buffer.name: buffer for buffer in buffers}

    def body(self, body: Body) -> Iterator[str]:
        """The lines of a body. Loops that the launch counts are lines only where they were split: as branches."""
        bound = [node for node in body if isinstance(node, Loop) and _is_bound(node)]
        if len(bound) > 1:
            yield from self._branches(bound)
            return
        for node in body:
            yield from self.body(node.body) if isinstance(node, Loop) and _is_bound(node) else self._node(node)

    def _branches(self, parts: Sequence[Loop]) -> Iterator[str]:
        *main, rest = parts
        before = ""
        for part in main:
            yield f"{before}if ({part.variable} < {part.stop}) {{"
            yield from _indented(self.body(part.body))
            before = "} else "
        yield "} else {"
        yield from _indented(self.body(rest.body))
        yield "}"

    def _node(self, node: Node) -> Iterator[str]:
        match node:
            case Loop(variable, start, stop, binding, body):
                if stop == start + 1:
                    yield "{"
                    yield f"{INDENT}const int {variable} = {start};"
                else:
                    yield from ("#pragma unroll",) if binding == "unrolled" else ()
                    yield f"for (int {variable} = {start}; {variable} < {stop}; ++{variable}) {{"
                yield from _indented(self.body(body))
                yield "}"
            case Stage(name, body):
                yield f"// {name}"
                yield from self.body(body)
            case Let(name, value):
                yield f"const int {name} = {_text(value)};"
            case Barrier():
                yield "__syncthreads();"
            case Guarded(bounds, Assign(to, Element() as source), Assign(same, None)) if same == to:
                yield f"{self._element(to)} = {_all(bounds)} ? {self._element(source)} : 0.0f;"
            case Guarded(bounds, then, None):
                yield f"if ({_all(bounds)}) {{"
                yield f"{INDENT}{self._statement(then)}"
                yield "}"
            case Assign() | MultiplyAdd():
                yield self._statement(node)
            case _:
                raise TypeError(f"no text for {node!r}")

    def _statement(self, statement: Statement) -> str:
        match statement:
            case Assign(to, None):
                return f"{self._element(to)} = 0.0f;"
            case Assign(to, Element() as source):
                return f"{self._element(to)} = {self._element(source)};"
            case MultiplyAdd(to, left, right):
                return f"{self._element(to)} += {self._element(left)} * {self._element(right)};"
        raise TypeError(f"no text for {statement!r}")

    def _element(self, element: Element) -> str:
        buffer = self._buffers[element.buffer]
        indices = element.indices
        if buffer.memory == "global":
            flat = indices[0]
            for index, extent in zip(indices[1:], buffer.shape[1:], strict=True):
                flat = flat * extent + index
            indices = (flat,)
        return element.buffer + "".join(f"[{_text(index)}]" for index in indices)


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (INDENT + line for line in lines)


def _all(bounds: Sequence[Bound]) -> str:
    return " && ".join(f"{_text(bound.index)} < {bound.limit}" for bound in bounds)


def _text(of: Expression) -> str:
    match of:
        case Constant(number):
            return str(number)
        case Variable(name):
            return name
        case Binary(operator, left, right):
            return f"{_operand(left, operator)} {operator} {_operand(right, operator, right=True)}"
    raise TypeError(f"no text for {of!r}")


def _operand(of: Expression, operator: str, *, right: bool = False) -> str:
    """In parentheses where it binds less; on the right also where it binds as much, unless all is addition."""
    if isinstance(of, Binary):
        inner, outer = PRECEDENCE[of.operator], PRECEDENCE[operator]
        if inner < outer or (right and inner == outer and (of.operator, operator) != ("+", "+")):
            return f"({_text(of)})"
    return _text(of)
