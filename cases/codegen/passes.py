"""What turns a program with a predicate everywhere into one of the four schedules. Every pass is a function of programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from .program import Assign, Body, Guarded, Let, Loop, Program, Stage, greatest

SPLIT = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "serial")  # axes that threads or registers share are left whole


def simplify(program: Program) -> Program:
    """Drop the bounds that always hold: of an axis that its tile divides, and in a part where they cannot fail."""
    return replace(program, body=_simplified(program.body, {}))


def loop_partitioning(program: Program) -> Program:
    """Split loops into a main part, whose bounds always hold, and a rest (Nimble, MLSys 2021).

    Every split doubles the body. A loop whose bounds may fail in its first step, or in none, stays as it is.
    """
    return simplify(replace(program, body=_partitioned(program.body, {})))


def local_padding(program: Program) -> Program:
    """Drop the predicates of compute, which only repeat those of fetch and write-back (DietCode, MLSys 2022).

    Fetch writes zeros where it has nothing to fetch, so what is computed on them changes no result.
    """
    return replace(program, body=_padded(program.body, ""))


def padding_and_partitioning(program: Program) -> Program:
    """Both; in which order makes no difference."""
    return local_padding(loop_partitioning(program))


SCHEDULES: Mapping[str, Callable[[Program], Program]] = MappingProxyType(
    {
        "baseline": simplify,
        "loop_partitioning": loop_partitioning,
        "local_padding": lambda program: local_padding(simplify(program)),
        "padding_and_partitioning": padding_and_partitioning,
    }
)


def _simplified(body: Body, known: Mapping[str, int]) -> Body:
    known = dict(known)
    kept: list[Body] = []
    for node in body:
        match node:
            case Let(name, value):
                known[name] = greatest(value, known)
                kept.append((node,))
            case Loop(variable, _, stop, _, inner):
                kept.append((replace(node, body=_simplified(inner, known | {variable: stop - 1})),))
            case Stage(_, inner):
                kept.append((replace(node, body=_simplified(inner, known)),))
            case Guarded(bounds, then):
                may_fail = tuple(bound for bound in bounds if greatest(bound.index, known) >= bound.limit)
                kept.append((replace(node, bounds=may_fail),) if may_fail else (then,))
            case _:
                kept.append((node,))
    return sum(kept, ())


def _partitioned(body: Body, known: Mapping[str, int]) -> Body:
    known = dict(known)
    parts: list[Body] = []
    for node in body:
        match node:
            case Let(name, value):
                known[name] = greatest(value, known)
                parts.append((node,))
            case Loop(variable, start, stop, _, inner):
                whole = replace(node, body=_partitioned(inner, known | {variable: stop - 1}))
                main = _unchecked(node, known)
                split = (replace(whole, stop=start + main), replace(whole, start=start + main))
                parts.append(split if 0 < main < stop - start else (whole,))
            case Stage(_, inner):
                parts.append((replace(node, body=_partitioned(inner, known)),))
            case _:
                parts.append((node,))
    return sum(parts, ())


def _unchecked(loop: Loop, known: Mapping[str, int]) -> int:
    """How many steps from the first on need none of the bounds that depend on the loop's variable."""
    if loop.binding not in SPLIT:
        return 0

    def margins(last: int) -> list[int]:
        return _margins(loop.body, {**known, loop.variable: last})

    first, least = margins(loop.start), margins(loop.stop - 1)
    depend = [place for place, (one, other) in enumerate(zip(first, least, strict=True)) if one != other]
    for last in range(loop.stop - 1, loop.start - 1, -1):
        found = margins(last)
        if all(found[place] > 0 for place in depend):
            return last - loop.start + 1
    return 0


def _margins(body: Body, known: Mapping[str, int]) -> list[int]:
    """By how much each bound holds at worst, in the order of the program; at 0 or less it may fail."""
    known = dict(known)
    found: list[int] = []
    for node in body:
        match node:
            case Let(name, value):
                known[name] = greatest(value, known)
            case Loop(variable, _, stop, _, inner):
                found += _margins(inner, known | {variable: stop - 1})
            case Stage(_, inner):
                found += _margins(inner, known)
            case Guarded(bounds):
                found += [bound.limit - greatest(bound.index, known) for bound in bounds]
            case _:
                pass
    return found


def _padded(body: Body, stage: str) -> Body:
    parts: list[Body] = []
    for node in body:
        match node:
            case Loop(_, _, _, _, inner):
                parts.append((replace(node, body=_padded(inner, stage)),))
            case Stage(name, inner):
                parts.append((replace(node, body=_padded(inner, name)),))
            case Guarded(_, then) if stage == "compute":
                parts.append((then,))
            case Guarded(_, then) if stage == "fetch":
                parts.append((replace(node, otherwise=Assign(then.to, None)),))
            case _:
                parts.append((node,))
    return sum(parts, ())
