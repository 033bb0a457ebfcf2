"""Names of kernels as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.timing.cupti.demangle import NAME_MAX, readable


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("_Z3addPfS_", "add(float*, float*)"),
        ("_ZN2at6native12cunn_SoftMaxILi4EfEEvPT0_", "void at::native::cunn_SoftMax<4, float>(float*)"),
        ("sm90_xmma_gemm_bf16bf16_tn", "sm90_xmma_gemm_bf16bf16_tn"),
        ("_Znonsense", "_Znonsense"),
        ("", ""),
        ("k" * 5_000, "k" * NAME_MAX),
    ],
)
def test_names(name: str, read: str) -> None:
    assert readable(name) == read


@given(st.text())
def test_any_name_is_read_within_the_limit(name: str) -> None:
    assert len(readable(name.replace("\0", ""))) <= NAME_MAX
