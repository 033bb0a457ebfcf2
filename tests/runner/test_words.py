"""Numbers with their nouns, as the runner and the reports say them."""

from __future__ import annotations

import pytest

from evenbench.runner.words import count


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (0, "case", "0 cases"),
        (1, "case", "1 case"),
        (3_000, "more row", "3,000 more rows"),
        (1, "launch", "1 launch"),
        (2, "launch", "2 launches"),
    ],
)
def test_one_is_singular(number: int, noun: str, said: str) -> None:
    assert count(number, noun) == said
