"""docs/reliability.md names tests that exist, for every fault that it lists, and all tests of faults."""

from __future__ import annotations

import pytest

from tests.test_docs import ROOT, rows, section, text_of
from tests.test_security_docs import NAMED, names_in

TABLES = ("## Faults of a case", "## Faults around it")
OF_FAULTS = (
    "tests/e2e/test_faults.py",
    "tests/e2e/test_driver_faults.py",
    "tests/gpu/test_faults.py",
)


@pytest.mark.parametrize("heading", TABLES)
def test_every_fault_names_tests_that_exist(heading: str) -> None:
    found = rows(section(text_of("docs/reliability.md"), heading))[1:]
    assert len(found) > 8
    for fault, seen, tests in found:
        named = NAMED.findall(tests)
        assert seen, fault
        assert named, fault
        assert NAMED.sub("", tests).strip() == "", fault  # nothing but names
        for file, name in named:
            assert name in names_in(file), f"{fault}: {file}::{name}"


@pytest.mark.parametrize("file", OF_FAULTS)
def test_every_test_of_a_fault_is_named(file: str) -> None:
    named = {name for where, name in NAMED.findall(text_of("docs/reliability.md")) if where == file}
    assert names_in(file) == named


def test_the_tests_are_there() -> None:
    assert all((ROOT / file).exists() for file in OF_FAULTS)
