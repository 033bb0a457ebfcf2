"""What is known of a request before anything is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.request import is_aa
from runner.sides import Checkout, SideSpec


def side(name: Any, sha: str = "a" * 40, tree: str = "", *, dirty: bool = False) -> Checkout:
    return Checkout(name, Path("/side"), sha, dirty, tree, "ref", name)


def request_of(verb: str = "compare", plant: object = None, setup: str | None = None) -> Any:
    specs = [SideSpec("base", "main"), SideSpec("head", None, *([setup] if setup else []))]
    return SimpleNamespace(verb=verb, plant=plant, specs=specs)


@pytest.mark.parametrize(
    ("head", "more", "aa"),
    [
        (side("head"), {}, True),
        (side("head", "b" * 40), {}, False),  # clean commits have no `tree`
        (side("head", tree="1", dirty=True), {}, False),
        (side("head"), {"setup": "pip install ."}, False),
        (side("head"), {"plant": object()}, False),
    ],
)
def test_a_comparison_of_one_code_with_itself_is_told(head: Checkout, more: dict[str, Any], aa: bool) -> None:
    assert is_aa(request_of(**more), [side("base"), head]) == aa


def test_two_directories_of_the_same_files_are_one_code() -> None:
    assert is_aa(request_of(), [side("base", "", "1"), side("head", "", "1")])
    assert not is_aa(request_of(), [side("base", "", "1"), side("head", "", "2")])
    assert not is_aa(SimpleNamespace(verb="run", plant=None, specs=[SideSpec("head", None)]), [side("head")])  # type: ignore[arg-type]
