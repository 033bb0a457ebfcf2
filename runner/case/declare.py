"""What a case author writes: `@case`, `Bench`, `Implementation`, `Work`; and what an id is.

``@case`` returns a frozen `Case` and touches no registry: discovery finds it as an attribute of its module. A `Case`
spans a parameter grid; `Case.points` lists its grid points, each one workload with fixed parameters and an id such as
``norm/rms[cols=4096,dtype=bfloat16,rows=4096]``. Everything malformed is a `CaseError` with file and line, at import.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ..errors import CaseError
from .artifact_names import check_artifacts
from .grid import VALUE_PATTERN, Params, Scalar, case_id, checked_grid

TIMERS = ("auto", "cupti", "cuda-events", "device-events", "host")
CACHES = ("cold", "warm")
WORK_MAX = 2**63 - 1  # no record holds more
DTYPE_MAX = 100  # characters of a name that tables show


@dataclass(frozen=True)
class Work:
    """What one iteration must do at least, for rates and shares of the ceiling.

    Args:
        dtype: element type of the arithmetic, such as ``bfloat16``.
        flops: floating-point operations (an FMA counts two).
        bytes_read: bytes the device must read at least once.
        bytes_written: bytes the device must write at least once.
        matrix: whether matrix units may do the arithmetic.
    """

    dtype: str
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    matrix: bool = False

    def __post_init__(self) -> None:
        for name in ("flops", "bytes_read", "bytes_written"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise CaseError(f"Work({name}=…) must be a whole number of 0 or more, not {value!r}")
            if value > WORK_MAX:
                raise CaseError(f"Work({name}=…) is over {WORK_MAX}: it counts one iteration")
        if not isinstance(self.dtype, str) or len(self.dtype) > DTYPE_MAX:
            raise CaseError(f"Work(dtype=…) must be a name such as 'float32', not {str(self.dtype)[:DTYPE_MAX]!r}")


@dataclass(frozen=True)
class Implementation:
    """One way to run a case's workload, made only when it is measured.

    Args:
        make: imports what it needs, makes private copies of what it changes, and returns ``run`` or ``(run, reset)``.
        requires: modules that must be importable, else the implementation is skipped with that reason.
    """

    make: Callable[[], Any]
    requires: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What a case function returns: the call to time and how to tell that it is right.

    Args:
        run: the timed call of a case with one implementation; its result is checked.
        inputs: named tensors or arrays that the call reads; hashed, must not change.
        outputs: named preallocated tensors or arrays that the call fills; poisoned before the checked call.
        reference: computes the right result on the same inputs; not timed.
        work: the least work of one iteration.
        reset: restores what the call overwrites; runs before every iteration, outside the timed interval.
        count_copies: copies belong to the work, so they count as device-busy time.
        implementations: name → callable or `Implementation`, for a case with several.
        baseline: the implementation that ratios refer to; required with `implementations`.
        artifacts: plain file name → text that this case generated, held against the copy saved in ``artifacts/``.
    """

    run: Callable[[], Any] | None = None
    inputs: Mapping[str, Any] | None = None
    outputs: Mapping[str, Any] | None = None
    reference: Callable[[], Any] | None = None
    work: Work | None = None
    reset: Callable[[], Any] | None = None
    count_copies: bool = False
    implementations: Mapping[str, Callable[[], Any] | Implementation] | None = None
    baseline: str | None = None
    artifacts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.run is None) == (not self.implementations):
            raise CaseError("a Bench takes either run= or implementations=, not both and not neither")
        if self.implementations:
            for name in self.implementations:
                if not isinstance(name, str) or not VALUE_PATTERN.fullmatch(name):
                    raise CaseError(f"implementation name {name!r} must match {VALUE_PATTERN.pattern}")
            if self.baseline not in self.implementations:
                names = ", ".join(self.implementations)
                raise CaseError(f"baseline={self.baseline!r} must name one of the implementations: {names}")
        elif self.baseline is not None:
            raise CaseError("baseline= needs implementations=")
        check_artifacts(self.artifacts)


@dataclass(frozen=True)
class GridPoint:
    """One case: a workload with fixed parameters.

    Args:
        case: the declaration it comes from.
        params: its parameters.
        id: joins it to the other side's, such as ``norm/rms[cols=8192]``.
    """

    case: Case
    params: Params
    id: str

    @property
    def seed(self) -> int:
        """A 63-bit seed drawn from the id, equal on both sides."""
        return int.from_bytes(hashlib.sha256(self.id.encode()).digest()[:8], "big") >> 1


@dataclass(frozen=True)
class Case:
    """A declared case: what `@case` returns. All arguments of `@case` are its fields."""

    name: str
    function: Callable[..., Bench]
    params: Mapping[str, Sequence[Scalar]]
    tags: frozenset[str]
    device: str | None
    timer: str | None
    requires: tuple[str, ...]
    skip: bool
    why: str
    cache: str | None
    iterations: int | None
    timeout_s: float | None
    rtol: float
    atol: float
    file: str
    line: int

    def __post_init__(self) -> None:
        """Raises CaseError for a value that its keyword does not take."""
        if self.timer is not None and self.timer not in TIMERS:
            raise CaseError(f"timer={self.timer!r} must be one of {', '.join(TIMERS)}")
        if self.cache is not None and self.cache not in CACHES:
            raise CaseError(f"cache={self.cache!r} must be one of {', '.join(CACHES)}")
        if self.device not in (None, "cpu"):
            raise CaseError(f"device={self.device!r}: only 'cpu' can be asked for; leave it out for the accelerator")
        count = self.iterations
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise CaseError(f"iterations={count!r} must be a whole number of 1 or more")
        if self.timeout_s is not None and not (_is_number(self.timeout_s) and self.timeout_s > 0):
            raise CaseError(f"timeout_s={self.timeout_s!r} must be a number over 0")
        for keyword, tolerance in (("rtol", self.rtol), ("atol", self.atol)):
            if not _is_number(tolerance) or tolerance < 0:
                raise CaseError(f"{keyword}={tolerance!r} must be a number of 0 or more")
        if self.skip and not self.why:
            raise CaseError(f"case {self.name!r}: skip= needs why=")

    @property
    def points(self) -> list[GridPoint]:
        """All grid points, in the order of the grid."""
        keys = sorted(self.params)
        return [
            GridPoint(
                self,
                Params(dict(zip(keys, values, strict=True))),
                case_id(self.name, dict(zip(keys, values, strict=True))),
            )
            for values in itertools.product(*(self.params[key] for key in keys))
        ]

    @property
    def title(self) -> str:
        """The first line of the case function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def source_hash(self) -> str:
        """A hash of the case function's source text, to say when a case itself changed."""
        try:
            text = inspect.getsource(self.function)
        except (OSError, TypeError):  # made at run time: its name must do
            text = self.name
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def case(  # noqa: PLR0913 - the keywords are the public vocabulary of a case
    name: str,
    *,
    params: Mapping[str, Sequence[Scalar]] | None = None,
    tags: Iterable[str] = (),
    device: str | None = None,
    timer: str | None = None,
    requires: Sequence[str] = (),
    skip: bool = False,
    why: str = "",
    cache: str | None = None,
    iterations: int | None = None,
    timeout_s: float | None = None,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    **unknown: object,
) -> Callable[[Callable[..., Bench]], Case]:
    """Declare a case; decorates a function ``(p, device) -> Bench``.

    Args:
        name: first part of the id, such as ``norm/rms``.
        params: name → values; the case spans their product.
        tags: for suites (``tag:pr``).
        device: ``"cpu"`` keeps the case off the accelerator; left out, it runs on the accelerator where there is one.
        timer: one of `TIMERS`, for this case alone.
        requires: modules that must be importable, else the case is skipped with that reason.
        skip, why: skip the case, and say why.
        cache: ``"warm"`` leaves the cache as the last iteration left it; the row says so.
        iterations: samples of one measurement, instead of what the budget gives.
        timeout_s: seconds this case may take in one launch.
        rtol, atol: tolerances of the check against the reference.

    Raises:
        CaseError: with file and line, for anything malformed.
    """
    if callable(name):  # a bare @case
        file, line = _place(name)
        raise CaseError(f"{file}:{line}: @case needs a name", 'write @case("group/name")')

    def declare(function: Callable[..., Bench]) -> Case:
        file, line = _place(function)
        try:
            for key in unknown:
                raise CaseError(
                    f"unknown keyword {key!r} of @case", "see the docstring of evenbench.case for the keywords"
                )
            return Case(
                name=name,
                function=function,
                params=MappingProxyType(checked_grid(name, params or {})),
                tags=frozenset(_words(name, "tags", tags)),
                device=device,
                timer=timer,
                requires=tuple(_words(name, "requires", requires)),
                skip=skip,
                why=why,
                cache=cache,
                iterations=iterations,
                timeout_s=timeout_s,
                rtol=rtol,
                atol=atol,
                file=file,
                line=line,
            )
        except CaseError as error:
            raise CaseError(f"{file}:{line}: {error.message}", error.hint) from None

    return declare


def _place(function: Callable[..., Any]) -> tuple[str, int]:
    code = getattr(function, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("<unknown>", 0)


def _words(name: str, keyword: str, words: Iterable[str]) -> Iterable[str]:
    if isinstance(words, str):  # it would be taken apart into letters
        raise CaseError(f"case {name!r}: {keyword}={words!r} must be a list of strings")
    return words


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
