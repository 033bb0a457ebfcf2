"""What a person sees who works in a terminal: progress, a table that follows a run, colours, completion in real shells."""

from __future__ import annotations

import fcntl
import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.fakes.repositories import SUITES, Repository
from tests.fakes.terminal import Terminal, terminal

ROOT = Path(__file__).parents[2]
EVENBENCH = str(Path(sys.executable).with_name("evenbench"))
RECORDED = ROOT / "tests" / "data" / "comment_h200.jsonl.gz"
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38)[;m]")
CURSOR = re.compile(r"\x1b\[\d*[A-HJKf]|\x1b\[\?25")  # what changes a line that stands there already
LONG = f"long/{'x' * 60}[letter=a,n=1000]"
CASES = f"""
    import numpy as np
    from evenbench import Bench, case

    @case("{LONG.partition("[")[0]}", params={{"n": [1000], "letter": ["a"]}}, device="cpu", iterations=3, tags={{"pr"}})
    def quick_sum(p, device):
        x = np.arange(float(p.n))
        return Bench(run=lambda: x.sum(), inputs={{"x": x}}, reference=lambda: x.sum())
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.made(tmp_path / "mine", {"cases/quick.py": CASES, "cases/suites.yaml": SUITES})
    made.git("branch", "topic")
    made.git("tag", "v1")
    return made


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded") / "h200.jsonl"
    path.write_bytes(gzip.decompress(RECORDED.read_bytes()))
    return path


@contextmanager
def shown(
    repository: Repository, *command: str, columns: int = 80, variables: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """A command in a terminal, as a person has it and not a CI job."""
    temporary = repository.path.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR", "COLUMNS", "GITHUB_ACTIONS")
    }
    environment: Mapping[str, str] = {
        **kept,
        "CUDA_VISIBLE_DEVICES": "",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": f"{Path(EVENBENCH).parent}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "TMPDIR": str(temporary),
    }
    with terminal(command, repository.path, {**environment, **(variables or {})}, columns) as found:
        yield found


class TestProgress:
    @pytest.fixture
    def slow(self, repository: Repository) -> Repository:
        """A launch of it takes long enough to be drawn."""
        repository.write(
            {"cases/quick.py": CASES.replace("        x =", "        __import__('time').sleep(1)\n        x =")}
        )
        return repository

    def test_ctrl_c_gives_the_terminal_back(self, slow: Repository) -> None:
        with shown(slow, EVENBENCH, "run", "--rounds", "9", "--output", "run.jsonl") as seen:
            seen.until("round 1 of 9")
            seen.type("\x03")
            assert seen.end() == 130
        assert seen.raw.rindex("\x1b[?25h") > seen.raw.rindex("\x1b[?25l")
        assert "go on with the same command and --resume --output" in " ".join(seen.text.split())
        assert seen.lines[-2] == "interrupted"

    def test_two_lines_change_in_place(self, slow: Repository) -> None:
        with shown(slow, EVENBENCH, "run", "--rounds", "2", columns=70) as seen:
            assert seen.end() == 0
        assert CURSOR.search(seen.raw)
        assert seen.raw.rindex("\x1b[?25h") > seen.raw.rindex("\x1b[?25l")  # the cursor is there again
        progress = [line.rstrip() for line in seen.lines if re.match(". round|━|╸|╺", line)]
        assert any(
            re.fullmatch(r". round [12] of 2 · head · (about \d+ s left · )?load [\d.]+ on \d+ CPUs", line)
            for line in progress
        )
        assert any(re.search(r"case 1 of 1 · long/x+…$", line) for line in progress)
        assert max(map(cell_len, progress)) <= 70
        assert seen.text.rstrip().splitlines()[-1].startswith("results: ")

    @pytest.mark.parametrize("variable", ["CI=true", "TERM=dumb"])
    def test_where_nobody_looks_lines_stay(self, repository: Repository, variable: str) -> None:
        name, _, value = variable.partition("=")
        with shown(repository, EVENBENCH, "run", variables={name: value}) as seen:
            assert seen.end() == 0
        assert not CURSOR.search(seen.raw)
        assert any(re.match(r"\[ +[\d.]+ s\] round 1 of 1", line) for line in seen.lines)

    def test_without_colour(self, repository: Repository) -> None:
        with shown(repository, EVENBENCH, "run", variables={"NO_COLOR": "1"}) as seen:
            assert seen.end() == 0
        assert CURSOR.search(seen.raw)
        assert not COLOUR.search(seen.raw)


class TestTable:
    @pytest.mark.parametrize("columns", [60, 80, 120, 200])
    def test_a_table_fits(self, repository: Repository, recorded: Path, columns: int) -> None:
        with shown(repository, EVENBENCH, "report", str(recorded), columns=columns) as seen:
            assert seen.end() == 0
        assert COLOUR.search(seen.raw)
        assert max(cell_len(line.rstrip()) for line in seen.lines) <= columns

    def test_watching_a_run_that_has_ended_shows_it(self, repository: Repository, recorded: Path) -> None:
        with shown(repository, EVENBENCH, "report", "--watch", str(recorded)) as seen:
            assert seen.end() == 0
        assert seen.text.endswith("was shown\r\n")
        assert "evenbench: 6 regressed" in seen.text


class TestWatch:
    def test_a_table_follows_a_run(self, repository: Repository) -> None:
        file = repository.path.parent / "run.jsonl"
        with shown(repository, EVENBENCH, "report", "--watch", str(file)) as seen:
            seen.until("waiting for run.jsonl")
            repository.write(
                {"cases/suites.yaml": SUITES.replace("rounds: 6, max_rounds: 6", "rounds: 12, max_rounds: 12")}
            )
            run = repository.start("compare", ".", "--output", str(file))
            seen.until("evenbench: partial: ")
            seen.until(r"what is here may change until the run ends · Ctrl-C ends")
            code = seen.end()
            _, errors = run.communicate()
        assert run.returncode == code, errors
        last = seen.text[seen.text.rindex("evenbench: ") :]
        assert "partial" not in last
        assert "12 rounds" in last

    def test_without_a_terminal_a_line_where_something_changed(self, repository: Repository) -> None:
        file = repository.path.parent / "run.jsonl"
        watch = repository.start("report", "--watch", str(file))
        run = repository.start("compare", ".", "--output", str(file), "--fail-on", "never")
        answer, told = watch.communicate()
        run.communicate()
        assert (run.returncode, watch.returncode) == (0, 0), told
        assert told.startswith(f"waiting for {file}\n[")
        assert "evenbench: partial: " in told
        assert answer.startswith("evenbench: A/A, ")
        assert "\x1b" not in answer + told

    def test_ctrl_c_leaves_the_table(self, repository: Repository) -> None:
        file = repository.path.parent / "run.jsonl"
        file.write_bytes(b"".join(gzip.decompress(RECORDED.read_bytes()).splitlines(keepends=True)[:-1]))
        with file.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # as a run holds it that writes
            with shown(repository, EVENBENCH, "report", "--watch", str(file)) as seen:
                seen.until("Ctrl-C ends")
                seen.type("\x03")
                assert seen.end() == 130
        assert "20 × 6 rows with shuffled labels" in seen.text[seen.text.rindex("evenbench: partial: 6 regressed") :]

    def test_a_run_that_died_is_not_waited_for(self, repository: Repository) -> None:
        file = repository.path.parent / "run.jsonl"
        file.write_bytes(b"".join(gzip.decompress(RECORDED.read_bytes()).splitlines(keepends=True)[:-1]))
        os.utime(file, (0, 0))
        watch = repository.start("report", "--watch", str(file))
        answer, told = watch.communicate()
        assert watch.returncode == 0
        assert "no run writes this any more" in told
        assert answer.startswith("evenbench: partial: 6 regressed")

    @pytest.mark.parametrize("more", [("--format", "json"), ("--explain", "a"), ("--out", "x")])
    def test_only_a_table_is_watched(self, repository: Repository, more: tuple[str, str]) -> None:
        watch = repository.start("report", "--watch", "none.jsonl", *more)
        _, told = watch.communicate()
        assert watch.returncode == 2
        assert told == "error: --watch shows a table (hint: leave --format, --explain and --out out)\n"


class TestCompletion:
    @pytest.fixture
    def bash(self, repository: Repository, tool: Callable[[str], str]) -> Iterator[Terminal]:
        tool("bash")
        yield from self.started(repository, "bash", ("bash", "--norc", "--noprofile", "-i"), "source ./script")

    @pytest.fixture
    def zsh(self, repository: Repository, tool: Callable[[str], str]) -> Iterator[Terminal]:
        """As the documentation has it: the script lies as `_evenbench` in a folder of `fpath`."""
        tool("zsh")
        load = "mkdir z && mv ./script z/_evenbench && fpath=($PWD/z $fpath) && autoload -U compinit && compinit -u -D"
        yield from self.started(repository, "zsh", ("zsh", "-f", "-i"), load)

    def started(self, repository: Repository, shell: str, command: tuple[str, ...], load: str) -> Iterator[Terminal]:
        made = subprocess.run([EVENBENCH, "--print-completion", shell], capture_output=True, check=True)
        (repository.path / "script").write_bytes(made.stdout)
        with shown(repository, *command, columns=200, variables={"TERM": "dumb", "PS1": "> "}) as seen:
            seen.type(f"{load}; echo rea''dy\n")
            seen.until("\nready")
            yield seen
            seen.type("\x15exit\n")
            assert seen.end() == 0

    WORDS = (
        ("evenbench comp", "evenbench compare "),
        ("evenbench history det", "evenbench history detect "),
        ("evenbench compare top", "evenbench compare topic "),
        ("evenbench compare v", "evenbench compare v1 "),
        ("evenbench compare v1 ca", "evenbench compare v1 cases/"),
        ("evenbench run --cache wa", "evenbench run --cache warm "),
        ("evenbench report --format customS", "evenbench report --format customSmallerIsBetter "),
        ("evenbench report cases/qu", "evenbench report cases/quick.py "),
        ("evenbench -v doc", "evenbench -v doctor "),
        ("evenbench --print-completion fi", "evenbench --print-completion fish "),
    )

    def test_bash(self, bash: Terminal) -> None:
        self.completes(bash)

    def test_zsh(self, zsh: Terminal) -> None:
        self.completes(zsh)

    def completes(self, seen: Terminal) -> None:
        for typed, whole in self.WORDS:
            before = len(seen.text)
            seen.type(f"{typed}\t")
            seen.until(re.escape(whole.rstrip("/ ")), before)
            seen.type("\x15")

    def test_fish(self, repository: Repository, tool: Callable[[str], str]) -> None:
        fish = tool("fish")
        script = subprocess.run([EVENBENCH, "--print-completion", "fish"], capture_output=True, text=True, check=True)
        (repository.path / "script").write_text(script.stdout)
        asked = "; ".join(["source ./script", *(f"complete -C '{typed}'; echo" for typed, _ in self.WORDS)])
        done = subprocess.run(
            [fish, "--no-config", "-c", asked], cwd=repository.path, capture_output=True, text=True, check=True,
            env={**os.environ, "HOME": str(repository.path.parent)},
        )  # fmt: skip
        for (_, whole), answer in zip(self.WORDS, done.stdout.split("\n\n"), strict=False):
            assert whole.split()[-1] in [line.partition("\t")[0] for line in answer.splitlines()]

    def test_another_shell_is_no_choice(self, repository: Repository) -> None:
        asked = repository.start("--print-completion", "tcsh")
        _, told = asked.communicate()
        assert asked.returncode == 2
        assert told.startswith("error: argument --print-completion: invalid choice: 'tcsh'")
