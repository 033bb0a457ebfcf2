"""Runs a program in numpy, without a GPU: slowly, and stricter than a GPU would.

The threads of a block go in lockstep. Registers hold NaN until they are written, shared memory from each fetch on; and an
index outside an array is an error. So a predicate that is missing where it is needed shows in the result, or at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .program import (
    Assign,
    Barrier,
    Body,
    Element,
    Guarded,
    Let,
    Loop,
    MultiplyAdd,
    Node,
    Program,
    Stage,
    Statement,
    value,
)


def interpret(program: Program, arrays: Mapping[str, Any]) -> None:
    """Run a program on arrays of float32, which it writes to.

    Raises IndexError where an active thread would touch what lies outside an array.
    """
    _Interpreter(program, arrays).run(program.body, {}, True)


class _Interpreter:
    """Variables map to numbers, or to one number for each thread; a mask says which threads are active."""

    def __init__(self, program: Program, arrays: Mapping[str, Any]) -> None:
        self._program = program
        self._arrays = dict(arrays)

    def run(self, body: Body, variables: Mapping[str, Any], active: Any) -> None:
        """One node after the other."""
        variables = dict(variables)
        for node in body:
            if isinstance(node, Let):
                variables[node.name] = value(node.value, variables)
            else:
                self._node(node, variables, active)

    def _node(self, node: Node, variables: Mapping[str, Any], active: Any) -> None:
        match node:
            case Loop():
                self._loop(node, variables, active)
            case Stage(name, body):
                if name == "fetch":
                    self._poison("shared")
                self.run(body, variables, active)
            case Guarded():
                self._guarded(node, variables, active)
            case Assign() | MultiplyAdd():
                self._statement(node, variables, active)
            case Barrier():
                pass  # threads in lockstep need not wait
            case _:
                raise TypeError(f"{node!r} cannot be run")

    def _loop(self, loop: Loop, variables: Mapping[str, Any], active: Any) -> None:
        if loop.binding == "threadIdx.x":
            threads = np.arange(loop.start, loop.stop)
            self._poison("registers", threads.shape)
            self.run(loop.body, {**variables, loop.variable: threads}, np.ones(threads.shape, dtype=bool))
            return
        for number in range(loop.start, loop.stop):
            self.run(loop.body, {**variables, loop.variable: number}, active)

    def _guarded(self, node: Guarded, variables: Mapping[str, Any], active: Any) -> None:
        holds = np.ones_like(active)
        for bound in node.bounds:
            holds = holds & (value(bound.index, variables) < bound.limit)
        self._statement(node.then, variables, active & holds)
        if node.otherwise is not None:
            self._statement(node.otherwise, variables, active & ~holds)

    def _poison(self, memory: str, threads: tuple[int, ...] = ()) -> None:
        """Fresh workspaces; those in registers have an axis of threads before their own."""
        for buffer in self._program.buffers:
            if buffer.memory == memory:
                self._arrays[buffer.name] = np.full((*threads, *buffer.shape), np.nan, dtype=np.float32)

    def _statement(self, statement: Statement, variables: Mapping[str, Any], active: Any) -> None:
        if not active.any():
            return
        to, at = self._place(statement.to, variables, active)
        match statement:
            case Assign(_, None):
                to[at] = 0
            case Assign(_, Element() as source):
                to[at] = self._read(source, variables, active)
            case MultiplyAdd(_, left, right):
                to[at] += self._read(left, variables, active) * self._read(right, variables, active)

    def _read(self, element: Element, variables: Mapping[str, Any], active: Any) -> Any:
        array, at = self._place(element, variables, active)
        return array[at]

    def _place(self, element: Element, variables: Mapping[str, Any], active: Any) -> tuple[Any, tuple[Any, ...]]:
        """An array, and where in it each active thread's element lies."""
        array = self._arrays[element.buffer]
        at = [np.broadcast_to(value(index, variables), active.shape)[active] for index in element.indices]
        if array.ndim > len(at):
            at.insert(0, np.flatnonzero(active))
        for index, extent in zip(at, array.shape, strict=True):
            if index.min() < 0 or index.max() >= extent:
                raise IndexError(f"{element.buffer}: index {index.max()} of an axis of {extent}")
        return array, tuple(at)
