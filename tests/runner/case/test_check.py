"""What `evenbench.runner.case.check` accepts, refuses and reports, on numbers, numpy arrays and torch tensors."""

from __future__ import annotations

import cmath
import math
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evenbench.runner.case.check import check_result, checksum, describe, is_finite, poison, seed_everything, unwritten
from evenbench.runner.case.fingerprint import CHUNK, _device_sum
from evenbench.runner.errors import SetupError, WrongResult

torch = pytest.importorskip("torch")
ROOT = Path(__file__).parents[3]

Maker = Callable[..., Any]
BOTH: list[Any] = [pytest.param(np.asarray, id="numpy"), pytest.param(torch.as_tensor, id="torch")]


def message(result: object, reference: object, rtol: float = 0.0, atol: float = 0.0) -> str:
    with pytest.raises(WrongResult) as caught:
        check_result(result, reference, rtol, atol)
    text = str(caught.value)
    assert "\n" not in text
    return text


# ------------------------------------------------------------------------------------------------------------- checksums


def test_checksums_are_pinned() -> None:
    """They join the two sides of a comparison, and stored runs: a new one must be meant."""
    assert checksum(None) == "127700f36af2e6f8"
    assert checksum([1, 2.5, "x", {"a": True}]) == "42aee47a037b5f0a"
    assert checksum(np.arange(6, dtype=np.float32).reshape(2, 3)) == "3ef95b336317aefe"
    assert _device_sum(torch.arange(6, dtype=torch.float32)) == 0x9C550B60D7097B1E


DIFFERENT: list[object] = [
    None,
    True,
    1,
    1.0,
    1 + 0j,
    "1",
    [],
    {},
    [1],
    [[1]],
    [1, 1],
    {"a": 1},
    {"b": 1},
    "a;1",
    ["a", "1"],
    ["a1", ""],
    np.zeros(4, np.float32),
    np.zeros((2, 2), np.float32),
    np.zeros(2, np.float64),
    np.zeros(4, np.int32),
    np.zeros(0, np.float32),
    -np.zeros(4, np.float32),
    np.array([0, 0, 0, 1], np.float32),
    np.array([0, 0, 1, 0], np.float32),
    np.array(1.0),
    torch.zeros(4, dtype=torch.bfloat16),
    torch.zeros(4, dtype=torch.float8_e4m3fn),
    torch.zeros(2, 3).to_sparse(),
]


def test_different_values_have_different_checksums() -> None:
    assert len({checksum(value) for value in DIFFERENT}) == len(DIFFERENT)


def test_equal_values_have_equal_checksums_whatever_their_layout() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    assert checksum(array) == checksum(array.T.copy().T) == checksum(np.repeat(array, 2, axis=0)[::2])
    assert checksum(tensor) == checksum(tensor.t().contiguous().t()) == checksum(tensor.repeat_interleave(2, 0)[::2])
    assert checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1})
    assert checksum((1, 2)) == checksum([1, 2])
    z = torch.tensor([1 + 2j, 3 - 1j])
    assert checksum(z.conj()) == checksum(torch.tensor([1 - 2j, 3 + 1j])) != checksum(z)
    assert checksum(torch.zeros(3, requires_grad=True)) == checksum(torch.zeros(3))


def test_a_value_without_a_checksum_is_refused() -> None:
    with pytest.raises(SetupError, match=r"checksum of a set.*hint: use tensors"):
        checksum({"x": {1, 2}})
    with pytest.raises(SetupError, match="Python objects"):
        checksum(np.array([object()]))


DTYPES = ["uint8", "int8", "int16", "int32", "int64", "bool", "float16", "bfloat16", "float32", "float64", "complex64"]


@pytest.mark.parametrize("dtype", [*DTYPES, "float8_e5m2", "complex128", "uint32"])
def test_the_device_sum_sees_one_changed_bit_anywhere(dtype: str) -> None:
    raw = torch.zeros(64 * torch.empty(0, dtype=getattr(torch, dtype)).element_size(), dtype=torch.uint8)
    zero = _device_sum(raw.view(getattr(torch, dtype)))
    sums = {zero}
    for index in range(raw.numel()):
        raw[index] = 1
        sums.add(_device_sum(raw.view(getattr(torch, dtype))))
        raw[index] = 0
    assert len(sums) == raw.numel() + 1
    assert _device_sum(raw.view(getattr(torch, dtype))) == zero  # and the tensor itself was left alone


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=40), st.data())
def test_the_device_sum_depends_on_order(values: list[int], data: st.DataObject) -> None:
    first, second = data.draw(st.tuples(*[st.integers(0, len(values) - 1)] * 2))
    swapped = list(values)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    same = _device_sum(torch.tensor(values)) == _device_sum(torch.tensor(swapped))
    assert same == (values == swapped)


def test_the_device_sum_goes_over_chunks() -> None:
    ones = torch.ones(CHUNK + 3, dtype=torch.int8)
    sums = {_device_sum(ones)}
    for index in (0, CHUNK - 1, CHUNK, CHUNK + 2):
        changed = ones.clone()
        changed[index] = 2
        sums.add(_device_sum(changed))
    assert len(sums) == 5


@pytest.mark.gpu
def test_the_device_sum_is_the_same_on_every_device() -> None:
    for dtype in (*DTYPES, "float8_e5m2", "complex128"):
        highest = 2 if dtype == "bool" else 256  # other bytes are no bool, and a copy may mend them
        values = torch.randint(0, highest, (CHUNK + 1, 16), dtype=torch.uint8).view(getattr(torch, dtype))
        moved = values.cuda()
        assert _device_sum(moved) == _device_sum(values)
        assert checksum(moved) == checksum(moved.t().contiguous().t())


@pytest.mark.gpu
def test_a_device_tensor_is_summed_in_little_memory() -> None:
    tensor = torch.ones(2**26, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    checksum(tensor)
    check_result(tensor, tensor.clone(), 0, 0)
    assert torch.cuda.max_memory_allocated() - before < 2**30


def test_inputs_are_described_in_name_order() -> None:
    x, w = torch.ones(2, 3, dtype=torch.bfloat16), np.zeros(4)
    assert describe({"x": x, "w": w, "n": 7}) == [
        {"name": "n", "shape": [], "dtype": "int", "sha": checksum(7)},
        {"name": "w", "shape": [4], "dtype": "float64", "sha": checksum(w)},
        {"name": "x", "shape": [2, 3], "dtype": "bfloat16", "sha": checksum(x)},
    ]
    assert describe(None) == []


# ------------------------------------------------------------------------------------------------------------- the check


@pytest.mark.parametrize("make", BOTH)
def test_the_largest_error_is_named_with_its_place(make: Maker) -> None:
    reference = np.zeros((3, 4), np.float32)
    result = reference.copy()
    result[0, 1], result[2, 3] = 0.5, -2.0
    assert message(make(result), make(reference), 1e-3, 1e-6) == (
        "result: 2 of 12 elements are wrong, largest error 2 at [2, 3]: -2 instead of 0 (rtol=0.001, atol=1e-06)"
    )
    assert "at [2, 3]" in message({"y": [make(result.T.copy().T)]}, {"y": (make(reference),)})
    assert message({"y": [make(result)]}, {"y": [make(reference)]}).startswith("result['y'][0]: 2 of 12")


@pytest.mark.parametrize("make", BOTH)
def test_nan_and_infinity(make: Maker) -> None:
    special = np.array([math.nan, math.inf, -math.inf, 1.0])
    check_result(make(special), make(special), 0, 0)
    for index, wrong in [(0, 1.0), (1, math.nan), (1, -math.inf), (1, 1e300), (2, 0.0), (3, math.nan), (3, math.inf)]:
        result = special.copy()
        result[index] = wrong
        assert f"1 of 4 elements are wrong, largest error inf at [{index}]" in message(
            make(result), make(special), 1e-2, 1e-2
        )
    assert "nan instead of 1" in message(make(np.array([math.nan])), make(np.array([1.0])))


@pytest.mark.parametrize("make", BOTH)
def test_tolerances_are_relative_to_the_reference(make: Maker) -> None:
    check_result(make(np.array([110.0])), make(np.array([100.0])), 0.1, 0)
    message(make(np.array([100.0])), make(np.array([90.0])), 0.1, 0)
    check_result(make(np.array([0.5])), make(np.array([0.0])), 0.1, 0.5)
    message(make(np.array([0.5])), make(np.array([0.0])), 0.1, 0.4)


@pytest.mark.parametrize("make", BOTH)
def test_integers_and_bools_are_exact(make: Maker) -> None:
    big = np.array([2**62, 2**62 + 1])
    check_result(make(big), make(big), 0, 0)
    assert f"{2**62 + 1} instead of {2**62}" in message(make(big[1:]), make(big[:1]), 1.0, 1e9)
    assert "True instead of False" in message(make(np.array([True])), make(np.array([False])), 1.0, 1.0)
    check_result(make(np.array([3], np.int8)), make(np.array([3], np.int64)), 0, 0)


@pytest.mark.parametrize("make", BOTH)
def test_complex_is_compared_by_distance(make: Maker) -> None:
    check_result(make(np.array([3 + 4j])), make(np.array([3 + 4.05j])), 0, 0.1)
    assert "largest error 5 at [0]: 3+4j instead of 0+0j" in message(make(np.array([3 + 4j])), make(np.array([0j])))


@pytest.mark.parametrize("make", BOTH)
def test_precision_may_differ_and_kind_and_shape_may_not(make: Maker) -> None:
    check_result(make(np.ones(2, np.float16)), make(np.ones(2, np.float64)), 0, 0)
    ones = make(np.ones(2))
    assert message(make(np.ones(2, np.int64)), ones) == "result is int64[2] where the reference is float64[2]"
    assert message(make(np.ones((1, 2))), ones) == "result is float64[1, 2] where the reference is float64[2]"
    assert message([ones], ones) == "result is list of 1 where the reference is float64[2]"
    assert message([ones], [ones, ones]) == "result is list of 1 where the reference is list of 2"
    assert message("a", ones) == "result is str where the reference is float64[2]"
    assert message(ones, None) == "result is float64[2] where the reference is NoneType"
    assert message([None], [ones]) == "result[0] is NoneType where the reference is float64[2]"
    assert message({"a": ones}, {"b": ones}) == "result has the keys ['a'], the reference ['b']"


def test_nothing_returned_says_what_to_do() -> None:
    expected = "the call returned nothing to check; return its result or declare outputs="
    assert message(None, np.ones(1)) == expected == message(None, None)


def test_torch_numpy_and_numbers_meet() -> None:
    array = np.arange(6.0)
    array.flags.writeable = False
    check_result(torch.arange(6, dtype=torch.float32), array, 0, 0)
    check_result(torch.arange(5, -1, -1, dtype=torch.float64), array[::-1], 0, 0)
    check_result(array, torch.arange(6, dtype=torch.float32), 0, 0)
    check_result(torch.tensor(0.5), 0.5, 0, 0)
    check_result(0.5, np.float32(0.5), 0, 0)
    check_result(torch.tensor(0.5), np.float32(0.5), 0, 0)
    check_result(torch.ones(2, 2, requires_grad=True), torch.eye(2).to_sparse(), 0, 1)
    check_result(torch.zeros(0, 3), np.zeros((0, 3)), 0, 0)
    check_result("text", "text", 0, 0)
    check_result([None, 1], (None, 1), 0, 0)
    assert "0.1 instead of 0.2" in message(0.1, 0.2)
    assert "instead of 0.1" in message(torch.tensor(0.1), 0.1)  # 0.1 keeps the double's digits
    assert message("a", "b") == "result is 'a' instead of 'b'"
    assert "cannot compare elements of type <U1" in message(np.array(["a"]), np.array(["a"]))


def test_low_precision_is_compared_in_float64() -> None:
    one = torch.ones(2, dtype=torch.bfloat16)
    check_result(one, torch.full((2,), 1.001), 1e-2, 0)
    assert "2 of 2" in message(one, torch.full((2,), 1.001), 1e-4, 0)
    check_result(one.to(torch.float8_e4m3fn), one, 0, 0)


def test_errors_are_counted_over_chunks() -> None:
    reference = np.zeros(CHUNK + 2, np.int8)
    result = reference.copy()
    result[[3, CHUNK, CHUNK + 1]] = [1, 9, 2]
    assert f"3 of {CHUNK + 2} elements are wrong, largest error 9 at [{CHUNK}]: 9 instead of 0" in message(
        result, reference
    )


FLOATS = hnp.arrays(
    np.float64,
    hnp.array_shapes(max_dims=3, max_side=4),
    elements=st.floats(width=32) | st.sampled_from([0.0, 1.0, 2.0]),
)
TOLERANCES = st.sampled_from([0.0, 1e-8, 1e-3, 0.5])


@given(FLOATS, st.data(), TOLERANCES, TOLERANCES)
def test_all_three_paths_agree_with_numpy(
    reference: np.ndarray[Any, Any], data: st.DataObject, rtol: float, atol: float
) -> None:
    result = data.draw(hnp.arrays(np.float64, reference.shape, elements=st.floats(width=32) | st.just(1.0)))
    where = data.draw(hnp.arrays(np.bool_, reference.shape))
    result = np.where(where, reference, result)
    with np.errstate(all="ignore"):
        right = np.isclose(result, reference, rtol=rtol, atol=atol, equal_nan=True)

    def passes(one: object, other: object) -> bool:
        try:
            check_result(one, other, rtol, atol)
        except WrongResult:
            return False
        return True

    assert passes(result, reference) == right.all()
    assert passes(torch.from_numpy(result), reference) == right.all()
    assert passes(result.reshape(-1).tolist(), reference.reshape(-1).tolist()) == right.all()


@given(FLOATS)
def test_a_value_equals_itself(value: np.ndarray[Any, Any]) -> None:
    check_result(value, value, 0, 0)
    check_result(torch.from_numpy(value), value, 0, 0)
    check_result(value.reshape(-1).tolist(), value.reshape(-1).tolist(), 0, 0)


# ---------------------------------------------------------------------------------------------------------------- poison

WIDE_DTYPES = ["bool", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def empty(kind: str, dtype: str, shape: tuple[int, ...] = (3, 4)) -> Any:
    return np.zeros(shape, dtype) if kind == "numpy" else torch.zeros(shape, dtype=getattr(torch, dtype))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [*(("numpy", name) for name in WIDE_DTYPES), *(("torch", name) for name in [*WIDE_DTYPES, "bfloat16"])],
)
def test_one_element_left_is_found(kind: str, dtype: str) -> None:
    outputs = {"y": empty(kind, dtype), "z": empty(kind, dtype), "none": empty(kind, dtype, (0,))}
    poison(outputs)
    assert unwritten(outputs) == ["y", "z"]
    outputs["z"][...] = 1
    last = outputs["y"][2, 3].item() if dtype != "bool" else None
    outputs["y"][:, :3] = outputs["y"][:2] = 1
    assert unwritten(outputs) == ["y"]
    outputs["y"][2, 3] = 1
    assert unwritten(outputs) == []
    if last is not None and dtype not in ("int32", "int64"):
        assert cmath.isnan(last)  # a float holds NaN, so that anything computed from it is seen


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_computed_nan_is_no_false_alarm(kind: str) -> None:
    for dtype in ("float16", "float32", "float64", "complex64"):
        outputs = {"y": empty(kind, dtype)}
        poison(outputs)
        zero = empty(kind, dtype)
        with np.errstate(invalid="ignore"):
            outputs["y"][...] = zero / zero
        assert unwritten(outputs) == []
        outputs["y"][...] = math.nan
        assert unwritten(outputs) == []


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_types_are_named_only_when_untouched(dtype: str) -> None:
    outputs = {"y": empty("torch", dtype)}
    poison(outputs)
    assert unwritten(outputs) == ["y"]
    outputs["y"].view(torch.uint8)[0, 0] = 1
    assert unwritten(outputs) == []


def test_strided_outputs_are_poisoned_in_place() -> None:
    whole, tensor = np.zeros((4, 4)), torch.zeros(4, 4)
    outputs = {"a": whole[::2, 1::2], "t": tensor.t()[1:, ::2]}
    poison(outputs)
    assert np.isnan(whole).sum() == 4
    assert int(tensor.isnan().sum()) == 6
    assert unwritten(outputs) == ["a", "t"]


def test_what_cannot_be_poisoned_is_refused() -> None:
    with pytest.raises(SetupError, match=r"outputs\['y'\] is a list"):
        poison({"y": [1.0]})
    with pytest.raises(SetupError, match=r"outputs\['y'\] has elements of type <U1"):
        poison({"y": np.array(["a"])})
    poison(None)
    assert unwritten(None) == []


# --------------------------------------------------------------------------------------------------------------- seeding


def test_seeds_reach_all_three_generators() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), torch.rand(1).item()  # noqa: NPY002 - the global one is meant

    seed_everything(2**63 - 1)
    first = draw()
    assert draw() != first
    seed_everything(2**63 - 1)
    assert draw() == first


def test_neither_numpy_nor_torch_is_imported_for_plain_numbers() -> None:
    program = """
import sys
from evenbench.runner.case.check import check_result, checksum, describe, poison, seed_everything, unwritten
seed_everything(1)
check_result([1.0, {"a": 2}], [1.0, {"a": 2}], 0, 0)
describe({"x": [1.0, 2.0]}); poison({}); unwritten({})
assert not {"numpy", "torch"} & set(sys.modules)
import numpy
numpy.ones(1).sum()
check_result(numpy.ones(3), numpy.ones(3), 0, 0); checksum(numpy.ones(3)); poison({"y": numpy.ones(3)})
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("value", "finite"),
    [
        (1.0, True), (float("inf"), False), (complex("nan"), False), (3, True), (None, True), ("inf", True),
        (np.array([1.0, 2.0]), True), (np.array([1.0, np.inf]), False), (np.array([1, 2]), True),
        ((1.0, [np.array([np.nan])]), False), ({"a": 1.0, "b": {"c": float("-inf")}}, False), ([], True),
    ],
)  # fmt: skip
def test_what_holds_nan_or_infinity(value: object, finite: bool) -> None:
    assert is_finite(value) == finite
