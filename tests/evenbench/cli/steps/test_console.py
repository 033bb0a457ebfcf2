"""stdout whose reader has gone, or that is closed: the exit code, and what else was asked for, stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.cli.main import main
from evenbench.cli.steps.console import ProgressConsole, say
from evenbench.cli.verbs.judge.expect import _diff
from tests import build
from tests.build import Case


@pytest.fixture
def regressed(tmp_path: Path) -> Path:
    """A results file of a regression."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(build.text(build.events([Case("k", head=30_000.0)])))
    return path


@pytest.mark.parametrize("options", [[], ["--format", "csv"], ["--format", "json"], ["--explain", "k"]])
def test_a_reader_that_has_seen_enough(regressed: Path, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = main(["report", str(regressed), *options])
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as gone:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr(sys, "stdout", gone)
        assert main(["report", str(regressed), *options]) == whole == ("--explain" not in options)


def test_progress_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that says it goes on."""
    for console in (ProgressConsole, None):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "w", encoding="utf-8") as gone:  # noqa: PTH123 - a descriptor
            monkeypatch.setattr(sys, "stderr", gone)
            told = say if console is None else console(stderr=True).print
            told("round 1 of 8\n")
            told("round 2 of 8\n")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream(regressed: Path, stream: str) -> None:
    closing = f"import os, sys; os.close(sys.{stream}.fileno()); os.execv(sys.executable, sys.argv[1:])"
    words = [sys.executable, "-m", "evenbench", "report", str(regressed)]
    done = subprocess.run([sys.executable, "-c", closing, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "bug" not in done.stderr


def test_a_diff_of_a_file_without_a_last_line_end() -> None:
    lines = "".join(_diff("version: 1", "version: 1\ndevices: {}\n", "f")).splitlines()
    assert lines[3:] == ["-version: 1", "\\ No newline at end of file", "+version: 1", "+devices: {}"]


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "-90.7 % +/- 5 us -> x ... 3 - ?"),
        ("latin-1", "-90.7 % ± 5 µs -> × ... 3 · ?"),
        ("utf-8", "−90.7 % ± 5 µs → × … 3 · 🔴"),
    ],
)
def test_signs_that_a_terminal_lacks_become_plain_ones(encoding: str, shown: str) -> None:
    assert "−90.7 % ± 5 µs → × … 3 · 🔴".encode(encoding, "evenbench.plainly").decode(encoding) == shown


@given(st.text())
def test_any_text_can_be_shown(text: str) -> None:
    text.encode("ascii", "evenbench.plainly")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_of_the_whole_command(regressed: Path, stream: str) -> None:
    arguments = ["report", str(regressed), "--fail-on", "never"] if stream == "stdout" else ["report", "−.jsonl"]
    done = subprocess.run(
        [sys.executable, "-m", "evenbench", *arguments], capture_output=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )  # fmt: skip
    written = getattr(done, stream).decode("ascii")
    assert "?" not in written
    assert "-" in written
