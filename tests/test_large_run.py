"""A large run is read, judged and shown at a cost that parsing its lines sets; `scripts/prove load` has the figure."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from evenbench.reports.compare.compare import compare
from evenbench.reports.load.results import load_file
from evenbench.reports.render.comment.comment import comment
from evenbench.reports.render.comment.markdown import COMMENT_BUDGET
from evenbench.runner.records import dump
from measurements.size.files import large_run

CASES, ROUNDS = 300, 8
PARSES_MAX = 8  # how many times parsing the lines with the standard library; it takes 3, before it was 5
SIZES_MAX = 2  # how many times the size of the file; it takes 1.3, as lists 4.5


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "results.jsonl"
    path.write_text("".join(dump(event) + "\n" for event in large_run(CASES, ROUNDS)))
    return path


def shown(path: Path) -> str:
    return comment(compare(load_file(path), date(2026, 11, 29)))


def quickest(call: Callable[[], object], times: int = 3) -> float:
    taken = []
    for _ in range(times):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return min(taken)


def test_its_comment_is_whole(large: Path) -> None:
    text = shown(large)
    assert len(text) <= COMMENT_BUDGET
    assert "evenbench: 3 regressed, 297 unchanged" in text  # every 100th is slower


@pytest.mark.timing
def test_time_from_file_to_comment(large: Path) -> None:
    parsing = quickest(lambda: [json.loads(line) for line in large.read_bytes().splitlines()])
    assert quickest(lambda: shown(large)) < PARSES_MAX * parsing


def test_memory_of_a_run(large: Path) -> None:
    tracemalloc.start()
    try:
        results = load_file(large)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert results.complete
    assert peak < SIZES_MAX * large.stat().st_size
