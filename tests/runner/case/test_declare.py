"""Declaring cases: exact ids, and one error with file and line for everything malformed."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.case.declare import Bench, Case, GridPoint, Implementation, Work, case
from evenbench.runner.case.grid import ID_MAX, Params, case_id
from evenbench.runner.errors import CaseError
from evenbench.runner.records.fields import COUNT_MAX

ID = re.compile(r"[A-Za-z0-9_./=,+\[\]-]{1,160}")


def function(p: Params, device: str) -> Bench:
    """Do nothing.

    In two paragraphs.
    """
    return Bench(run=lambda: 1)


LINE = function.__code__.co_firstlineno
PLACE = f"{__file__}:{LINE}: "


def declare(name: Any = "a/b", **keywords: Any) -> Case:
    return case(name, **keywords)(function)


# ------------------------------------------------------------------------------------------------------------------- ids


def test_ids_have_sorted_keys() -> None:
    declared = declare("norm/rms", params={"rows": [4096], "dtype": ["bfloat16"], "cols": [4096, 8192]})
    assert [point.id for point in declared.points] == [
        "norm/rms[cols=4096,dtype=bfloat16,rows=4096]",
        "norm/rms[cols=8192,dtype=bfloat16,rows=4096]",
    ]
    assert [point.params.cols for point in declared.points] == [4096, 8192]
    assert [point.id for point in declare("a").points] == ["a"]
    assert case_id("a", {"z": True, "b": 1e-05, "c": -1, "d": "x+y", "e": 0.5}) == "a[b=1e-05,c=-1,d=x+y,e=0.5,z=True]"


def test_the_grid_is_a_product_in_the_order_of_its_values() -> None:
    points = declare(params={"b": [2, 1], "a": ["y", "x"]}).points
    assert [point.id for point in points] == ["a/b[a=y,b=2]", "a/b[a=y,b=1]", "a/b[a=x,b=2]", "a/b[a=x,b=1]"]
    assert [dict(point.params) for point in points] == [
        {"a": "y", "b": 2},
        {"a": "y", "b": 1},
        {"a": "x", "b": 2},
        {"a": "x", "b": 1},
    ]


KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(lambda key: not hasattr(Params, key))
VALUES = st.one_of(
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.floats(allow_nan=False),
    st.from_regex(r"[A-Za-z0-9_./+-]{1,9}", fullmatch=True),
)
GRIDS = st.dictionaries(KEYS, st.lists(VALUES, min_size=1, max_size=3, unique_by=str), max_size=3)


@given(GRIDS)
def test_every_accepted_grid_gives_unique_safe_ids(grid: dict[str, list[Any]]) -> None:
    ids = [point.id for point in declare(params=grid).points]
    assert len(set(ids)) == len(ids)
    assert all(ID.fullmatch(text) for text in ids)


def test_seeds_come_from_the_id_alone() -> None:
    def other(p: Params, device: str) -> Bench:
        return Bench(run=lambda: 2)

    [one] = declare("a/b", params={"n": [1]}).points
    [same] = case("a/b", params={"n": [1]}, tags={"x"})(other).points
    [different] = declare("a/b", params={"n": [2]}).points
    assert one.seed == same.seed == 7537585545085515807
    assert different.seed != one.seed
    assert 0 <= different.seed < 2**63


# ----------------------------------------------------------------------------------------------------------- declaration


def test_all_keywords_become_fields() -> None:
    declared = declare(
        "x/y", params={"n": [1]}, tags=["pr", "pr"], device="cpu", timer="host", requires=["json"], skip=True, why="slow",
        cache="warm", iterations=30, timeout_s=1.5, rtol=0.1, atol=0.2,
    )  # fmt: skip
    assert declared == Case(
        name="x/y", function=function, params={"n": (1,)}, tags=frozenset({"pr"}), device="cpu", timer="host",
        requires=("json",), skip=True, why="slow", cache="warm", iterations=30, timeout_s=1.5, rtol=0.1, atol=0.2,
        file=__file__, line=LINE,
    )  # fmt: skip
    assert declared.title == "Do nothing."
    with pytest.raises(AttributeError):
        declared.name = "z"  # type: ignore[misc]
    with pytest.raises(TypeError):
        declared.params["n"] = (2,)  # type: ignore[index]


def test_defaults_ask_for_nothing() -> None:
    declared = declare()
    assert (declared.device, declared.timer, declared.cache, declared.iterations, declared.timeout_s) == (None,) * 5
    assert (declared.tags, declared.requires, declared.skip, dict(declared.params)) == (frozenset(), (), False, {})


def test_the_source_hash_follows_the_function() -> None:
    def other(p: Params, device: str) -> Bench:
        return Bench(run=lambda: 2)

    assert re.fullmatch("[0-9a-f]{16}", declare().source_hash)
    assert declare("one").source_hash == declare("two", tags=["pr"]).source_hash != case("one")(other).source_hash
    made_at_run_time: dict[str, Any] = {}
    exec("def made(p, device): ...", made_at_run_time)
    assert re.fullmatch("[0-9a-f]{16}", case("one")(made_at_run_time["made"]).source_hash)


VALUE_RULE = "must be a string, number or bool matching [A-Za-z0-9_./+-]+"
MALFORMED: list[tuple[dict[str, Any], str]] = [
    ({"name": "a b"}, "case name 'a b' must match [A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"),
    ({"name": "/a"}, "case name '/a' must match [A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"),
    ({"name": "a|b"}, "case name 'a|b' must match [A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"),
    ({"name": "a\n"}, "case name 'a\\n' must match [A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"),
    ({"name": 7}, "case name 7 must match [A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"),
    ({"name": None}, "case name None must match [A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*"),
    ({"params": {"a-b": [1]}}, "case 'a/b': parameter name 'a-b' must be an identifier"),
    ({"params": {1: [1]}}, "case 'a/b': parameter name 1 must be an identifier"),
    ({"params": {"keys": [1]}}, "case 'a/b': parameter name 'keys' is taken by the mapping p (hint: choose another name)"),
    ({"params": {"n": []}}, "case 'a/b': parameter 'n' needs a list of one or more values"),
    ({"params": {"n": "float32"}}, "case 'a/b': parameter 'n' needs a list of one or more values"),
    ({"params": {"n": 4}}, "case 'a/b': parameter 'n' needs a list of one or more values"),
    ({"params": {"n": [1, "1"]}}, "case 'a/b': parameter 'n' lists a value twice"),
    ({"params": {"n": [[1]]}}, f"case 'a/b': value [1] of 'n' {VALUE_RULE}"),
    ({"params": {"n": [None]}}, f"case 'a/b': value None of 'n' {VALUE_RULE}"),
    ({"params": {"n": ["a,b"]}}, f"case 'a/b': value 'a,b' of 'n' {VALUE_RULE}"),
    ({"params": {"n": [""]}}, f"case 'a/b': value '' of 'n' {VALUE_RULE}"),
    ({"params": {"a": range(101), "b": range(100)}}, "case 'a/b': its grid has 10100 points, at most 10000 are allowed"),
    ({"colour": 1}, "unknown keyword 'colour' of @case (hint: see the docstring of evenbench.case for the keywords)"),
    ({"timer": "sundial"}, "timer='sundial' must be one of auto, cupti, cuda-events, device-events, host"),
    ({"cache": "hot"}, "cache='hot' must be one of cold, warm"),
    ({"device": "cuda"}, "device='cuda': only 'cpu' can be asked for; leave it out for the accelerator"),
    ({"iterations": 0}, "iterations=0 must be a whole number of 1 or more"),
    ({"iterations": True}, "iterations=True must be a whole number of 1 or more"),
    ({"iterations": 1.5}, "iterations=1.5 must be a whole number of 1 or more"),
    ({"timeout_s": 0}, "timeout_s=0 must be a number over 0"),
    ({"timeout_s": "1"}, "timeout_s='1' must be a number over 0"),
    ({"timeout_s": float("nan")}, "timeout_s=nan must be a number over 0"),
    ({"skip": True}, "case 'a/b': skip= needs why="),
    ({"tags": "pr"}, "case 'a/b': tags='pr' must be a list of strings"),
    ({"requires": "torch"}, "case 'a/b': requires='torch' must be a list of strings"),
]  # fmt: skip


@pytest.mark.parametrize(("keywords", "error"), MALFORMED, ids=[str(keywords) for keywords, _ in MALFORMED])
def test_malformed_cases_name_file_and_line(keywords: dict[str, Any], error: str) -> None:
    with pytest.raises(CaseError) as caught:
        declare(**keywords)
    assert str(caught.value) == PLACE + error


def test_an_id_has_a_longest_length() -> None:
    room = ID_MAX - len("[n=10]")
    [*_, longest] = declare("x" * room, params={"n": [1, 10]}).points
    assert len(longest.id) == ID_MAX
    with pytest.raises(CaseError) as caught:
        declare("x" * (room + 1), params={"n": [10, 1]})
    assert str(caught.value) == (
        f"{PLACE}case id '{'x' * (room + 1)}[n=10]' is longer than 160 characters (hint: shorten the name or the parameters)"
    )


def test_a_bare_decorator_is_told_what_is_missing() -> None:
    bare: Callable[..., Any] = case
    with pytest.raises(CaseError) as caught:
        bare(function)
    assert str(caught.value) == PLACE + '@case needs a name (hint: write @case("group/name"))'


def test_a_grid_at_its_limit_is_accepted() -> None:
    assert len(declare(params={"a": range(100), "b": range(100)}).points) == 10_000


# ---------------------------------------------------------------------------------------------------------------- params


def test_parameters_read_both_ways_and_never_change() -> None:
    source: dict[str, str | int | float | bool] = {"cols": 8, "dtype": "float32"}
    p = Params(source)
    source["cols"] = 9
    assert (p.cols, p["dtype"], dict(p), len(p)) == (8, "float32", {"cols": 8, "dtype": "float32"}, 2)
    assert repr(p) == "Params(cols=8, dtype='float32')"
    with pytest.raises(AttributeError, match="parameters are fixed"):
        p.cols = 9
    with pytest.raises(AttributeError, match="parameters are fixed"):
        p._values = {}
    with pytest.raises(TypeError):
        p["cols"] = 9
    with pytest.raises(TypeError):
        p._values["cols"] = 9
    with pytest.raises(AttributeError, match="this case has no parameter 'rows'; it has: cols, dtype"):
        _ = p.rows
    with pytest.raises(KeyError):
        _ = p["rows"]


def test_parameters_can_be_copied_and_sent() -> None:
    p = Params({"cols": 8})
    for again in (copy.copy(p), copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(again) is Params
        assert (again, again.cols) == (p, 8)


def test_a_point_cannot_be_changed() -> None:
    [point] = declare().points
    assert isinstance(point, GridPoint)
    with pytest.raises(AttributeError):
        point.id = "other"  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------------- Bench and Work


def test_a_bench_takes_one_run_or_several_implementations() -> None:
    def run() -> int:
        return 1

    assert Bench(run=run).run is run
    several = Bench(implementations={"a": run, "b": Implementation(lambda: run, requires=["json"])}, baseline="a")
    assert several.baseline == "a"
    assert Bench(run=run).artifacts == {}


BAD_BENCHES: list[tuple[dict[str, Any], str]] = [
    ({}, "a Bench takes either run= or implementations=, not both and not neither"),
    ({"implementations": {}}, "a Bench takes either run= or implementations=, not both and not neither"),
    ({"run": id, "implementations": {"a": id}}, "a Bench takes either run= or implementations=, not both and not neither"),
    ({"implementations": {"a b": id}, "baseline": "a b"}, "implementation name 'a b' must match [A-Za-z0-9_./+-]+"),
    ({"implementations": {1: id}, "baseline": 1}, "implementation name 1 must match [A-Za-z0-9_./+-]+"),
    ({"implementations": {"a": id, "b": id}}, "baseline=None must name one of the implementations: a, b"),
    ({"implementations": {"a": id}, "baseline": "c"}, "baseline='c' must name one of the implementations: a"),
    ({"run": id, "baseline": "a"}, "baseline= needs implementations="),
]  # fmt: skip


@pytest.mark.parametrize(("keywords", "error"), BAD_BENCHES)
def test_a_malformed_bench_is_refused(keywords: dict[str, Any], error: str) -> None:
    with pytest.raises(CaseError) as caught:
        Bench(**keywords)
    assert str(caught.value) == error


@pytest.mark.parametrize("field", ["flops", "bytes_read", "bytes_written"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "1"])
def test_work_is_counted_in_whole_numbers(field: str, value: object) -> None:
    with pytest.raises(CaseError) as caught:
        Work(dtype="float32", **{field: value})  # type: ignore[arg-type]
    assert str(caught.value) == f"Work({field}=…) must be a whole number of 0 or more, not {value!r}"


def test_work_that_no_record_holds_is_refused_where_it_is_declared() -> None:
    assert Work(dtype="float32", flops=COUNT_MAX).flops == COUNT_MAX
    with pytest.raises(CaseError, match=r"^Work\(flops=…\) is over 9223372036854775807: it counts one iteration$"):
        Work(dtype="float32", flops=COUNT_MAX + 1)
    with pytest.raises(CaseError, match=r"^Work\(dtype=…\) must be a name such as 'float32', not .*float"):
        Work(dtype=float)  # type: ignore[arg-type]
