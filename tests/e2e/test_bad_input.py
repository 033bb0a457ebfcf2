"""What people get wrong, and what foreign code does: one line, the right exit code, and nothing lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.repositories import QUICK, SUITES, Repository, errors

BAD_CASES = """
    import os, signal, time
    import numpy as np
    from evenbench import Bench, case

    x = np.arange(1000.0)
    y = np.arange(1000.0)

    @case("bad/raises", device="cpu")
    def raises(p, device):
        return Bench(run=lambda: 1 / 0)

    @case("bad/setup", device="cpu")
    def setup(p, device):
        raise ValueError("no such table")

    @case("bad/hangs", device="cpu", timeout_s=1.5)
    def hangs(p, device):
        return Bench(run=lambda: time.sleep(600))

    @case("bad/dies", device="cpu")
    def dies(p, device):
        return Bench(run=lambda: os.kill(os.getpid(), signal.SIGSEGV))

    @case("bad/exits", device="cpu")
    def exits(p, device):
        return Bench(run=lambda: os._exit(7))

    @case("bad/wrong", device="cpu")
    def wrong(p, device):
        return Bench(run=lambda: x + 1, reference=lambda: x)

    @case("bad/returns-nothing", device="cpu")
    def nothing(p, device):
        pass

    @case("bad/result-missing", device="cpu")
    def missing(p, device):
        return Bench(run=lambda: None, reference=lambda: x)

    @case("bad/changes-inputs", device="cpu")
    def changes(p, device):
        def run():
            y[0] += 1
            return y
        return Bench(run=run, inputs={"y": y})

    @case("bad/leaves-outputs", device="cpu")
    def leaves(p, device):
        out = np.empty(1000)
        return Bench(run=lambda: np.copyto(out[1:], x[1:]), outputs={"out": out}, reference=lambda: x)
"""

# What the row of each says.
REASONS = {
    "bad/raises": ("failed", "ZeroDivisionError"),
    "bad/setup": ("failed", "ValueError: no such table"),
    "bad/hangs": ("failed", "no progress within 1.5 s"),
    "bad/dies": ("failed", "killed by SIGSEGV"),
    "bad/exits": ("failed", "exit status 7"),
    "bad/wrong": ("wrong", "1000 of 1000"),
    "bad/returns-nothing": ("failed", "returned NoneType, not a Bench"),
    "bad/result-missing": ("wrong", "returned nothing"),
    "bad/changes-inputs": ("wrong", "changed its inputs"),
    "bad/leaves-outputs": ("wrong", "unwritten: out"),
}


def test_bad_cases_cost_only_their_rows(repository: Repository) -> None:
    repository.commit({"cases/bad.py": BAD_CASES})
    repository.commit({})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--json", "out.json", "--comment", "out.md")
    assert done.returncode == 0, done.stderr  # all of it is as bad on base
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    assert rows["quick/sum"]["verdict"] in ("unchanged", "inconclusive")
    for case, (verdict, reason) in REASONS.items():
        assert rows[case]["verdict"] == verdict, rows[case]
        assert reason in rows[case]["reason"], rows[case]
        assert "\n" not in rows[case]["reason"]
        assert rows[case]["broken_by_head"] is False
    assert repository.evenbench("report", *_results(repository), "--fail-on", "failed").returncode == 0
    run = repository.evenbench("run", "--fail-on", "regressed")
    assert run.returncode == 0, run.stderr
    assert repository.evenbench("run").returncode == 1


def test_broken_on_head_only(repository: Repository) -> None:
    broken = QUICK.replace("x.sum(), inputs", "x.sum() / None, inputs")
    repository.commit({"cases/more.py": QUICK.replace("quick/sum", "more/sum")})
    repository.commit({"cases/more.py": broken.replace("quick/sum", "more/sum")})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--json", "out.json")
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    assert rows["more/sum"]["verdict"] == "failed"
    assert "TypeError" in rows["more/sum"]["reason"]
    back = repository.evenbench("compare", "HEAD", "HEAD~1", "--json", "back.json")
    rows = {row["case"]: row for row in json.loads((repository.path / "back.json").read_text())["rows"]}
    assert rows["more/sum"]["verdict"] == "fixed"
    assert (done.returncode, back.returncode) == (1, 0)


def test_case_that_dies_in_timed_launches_is_given_up(repository: Repository) -> None:
    """It works in the preparation launch and dies in every later one: three lost rounds of eight are the end."""
    counter = repository.path / "launches"
    dying = f"""
        import os
        from pathlib import Path
        from evenbench import Bench, case

        @case("dying/later", device="cpu")
        def later(p, device):
            with Path({str(counter)!r}).open("a") as file:
                file.write("x")
            if Path({str(counter)!r}).stat().st_size > 2:
                os.abort()
            return Bench(run=lambda: sum(range(1000)))
    """
    repository.commit({"cases/dying.py": dying})
    done = repository.evenbench("compare", "HEAD", "HEAD", "--rounds", "8", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    assert rows["dying/later"]["verdict"] == "failed"
    assert "SIGABRT" in rows["dying/later"]["reason"]
    assert rows["quick/sum"]["rounds"] == 8
    assert counter.stat().st_size < 2 + 16  # given up before the end


def test_import_error_on_one_side_costs_its_rows(repository: Repository) -> None:
    repository.commit({"cases/extra.py": QUICK.replace("quick/sum", "extra/sum")})
    repository.commit({"cases/extra.py": "import no_such_module\n"})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--json", "out.json")
    assert done.returncode == 1, done.stderr
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    assert rows["extra/sum"]["verdict"] == "failed"
    assert "no_such_module" in rows["extra/sum"]["reason"]
    assert repository.evenbench("report", *_results(repository), "--fail-on", "failed").returncode == 1


def test_import_error_on_both_sides(repository: Repository) -> None:
    repository.commit({"cases/extra.py": "import no_such_module\n"})
    done = repository.evenbench("compare", "HEAD", "HEAD")
    assert done.returncode == 2
    assert errors(done) == [
        "error: a case file that no side can import: extra.py:1: ModuleNotFoundError: No module named 'no_such_module'"
    ]
    assert "1 unchanged" in done.stdout or "1 inconclusive" in done.stdout  # what could be measured was


@pytest.mark.parametrize(
    ("files", "arguments", "code", "message"),
    [
        ({"cases/quick.py": "x = 1\n"}, ["compare", "HEAD", "."], 2, "no cases were found"),
        ({"cases/quick.py": "import no_such\n"}, ["compare", "HEAD", "HEAD"], 2, "no case file can be imported"),
        (
            {"cases/again.py": QUICK},
            ["compare", "HEAD", "HEAD"],
            2,
            "declared twice: again.py",
        ),
        ({"cases/suites.yaml": "version: 1\nsuite: {}\n"}, ["compare", "HEAD", "HEAD"], 2, "did you mean 'suites'"),
        ({}, ["compare", "no-such-ref"], 2, "unknown ref or directory: 'no-such-ref'"),
        ({}, ["compare", "HEAD", "HEAD", "no/such*"], 2, "selects none of 1 case"),
        ({}, ["compare", "HEAD", "HEAD", "--suite", "nightly"], 2, "nightly"),
        (
            {},
            ["compare", "HEAD", "HEAD", "--cases", "benches"],
            2,
            "no directory benches/ in HEAD (hint: evenbench init",
        ),
        ({}, ["compare", "HEAD", "HEAD", "--rounds", "5"], 2, "at least 6"),
        ({}, ["compare", "HEAD", "HEAD", "--gpu", "0"], 2, "no NVIDIA GPU"),
        ({}, ["compare", "HEAD", "HEAD", "--timer", "cupti"], 4, "no case gave a number"),
        ({}, ["compare", "HEAD", "HEAD", "--head-setup", "echo broken; exit 3"], 4, "head"),
        ({}, ["compare", "HEAD", "HEAD", "--head-python", "/bin/false"], 2, "/bin/false"),
        ({}, ["compare", "HEAD", "HEAD", "--resume"], 2, "--resume needs --output"),
        ({}, ["report", "no-such-file.jsonl"], 2, "no-such-file.jsonl"),
        ({}, ["compare", "HEAD", "HEAD", "--config", "no-such.yaml"], 2, "--config no-such.yaml: no such file"),
        ({}, ["compare", "HEAD", "HEAD", "--fail-on", ""], 2, "--fail-on: names no condition"),
        ({}, ["compare", "HEAD", "HEAD", "--shard", "0/2"], 2, "--shard needs --seed"),
        ({}, ["compare", "HEAD", "HEAD", "--seed", "-1"], 2, "--seed -1: must be 0 to"),
        ({}, ["compare", "HEAD", "HEAD", "--comment", "no/such/folder.md"], 2, "cannot be written"),
        (
            {},
            ["compare", "HEAD", "--no-such-option"],
            2,
            "arguments: --no-such-option (hint: evenbench compare --help)",
        ),
        ({}, ["compare"], 2, "the following arguments are required: BASE"),
        ({}, ["list", "no/such*"], 2, "selects none of 1 case"),
        ({}, ["run", "--rounds", "0"], 2, "--rounds: must be 1 to"),
        ({}, ["expect", "--rounds", "2"], 2, "--rounds 2: at least 3 launches are needed"),
        (
            {},
            ["run", "--artifacts-only", "--plant", "quick/sum=0.1", "--rounds", "3", "--no-ceilings"],
            2,
            "leave --plant and --rounds and --no-ceilings out",
        ),
        ({}, ["plan", "--shards", "2", "--durations", ""], 2, "argument --durations: is empty"),
        ({}, ["run", "--gpus", "1", "--durations", ""], 2, "argument --durations: is empty"),
        (
            {"cases/quick.py": QUICK.replace("quick/sum", "other/sum")},
            ["compare", "HEAD~1", "HEAD"],
            4,
            "no case in common",
        ),
        (
            {"cases/quick.py": QUICK.replace('tags={"pr"}', 'tag={"pr"}')},
            ["compare", "HEAD", "HEAD"],
            2,
            "unknown keyword 'tag'",
        ),
    ],
    ids=lambda value: "-".join(value)[:40] if isinstance(value, list) else None,
)
def test_one_line_and_its_exit_code(
    repository: Repository, files: dict[str, str], arguments: list[str], code: int, message: str
) -> None:
    repository.commit(files)
    done = repository.evenbench(*arguments)
    assert done.returncode == code, done.stderr
    [line] = errors(done)
    assert message in line
    assert "Traceback" not in done.stderr
    assert repository.git("worktree", "list").count("\n") == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_expectations_that_are_no_regular_file_are_refused_before_measuring(
    repository: Repository, make: Callable[[Path], None]
) -> None:
    make(repository.path / "cases/expectations.yaml")
    done = repository.evenbench("expect", "--write")
    assert done.returncode == 2, done.stderr
    [line] = errors(done)
    assert "expectations.yaml is no regular file (hint: " in line
    assert not (repository.path / ".evenbench").exists()


def test_results_are_not_overwritten(repository: Repository) -> None:
    repository.write({"out.jsonl": "precious\n"})
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl")
    assert done.returncode == 2
    assert "exists already" in errors(done)[0]
    assert (repository.path / "out.jsonl").read_text() == "precious\n"


def test_hostile_results_files(repository: Repository) -> None:
    good = repository.evenbench("compare", "HEAD~1", "HEAD", "--output", "good.jsonl")
    assert good.returncode == 0, good.stderr
    text = (repository.path / "good.jsonl").read_text()
    whole = text.splitlines(keepends=True)
    measured = next(i for i, line in enumerate(whole) if '"measurement"' in line)
    broken = {
        "nan.jsonl": text.replace('"seed":', '"seed":NaN,"x":', 1),
        "version.jsonl": text.replace("evenbench.results/1.", "evenbench.results/2.", 1),
        "key.jsonl": text.replace('"event":"measurement"', '"event":"measurement","extra":1', 1),
        "empty.jsonl": "",
        "binary.jsonl": "\x00\x01",
        "middle.jsonl": "".join([*whole[:measured], whole[measured][:50] + "\n", *whole[measured + 1 :]]),
    }
    for name, content in broken.items():
        (repository.path / name).write_text(content)
        done = repository.evenbench("report", name)
        assert done.returncode == 5, (name, done.stderr)
        assert len(errors(done)) == 1
    (repository.path / "cut.jsonl").write_text("".join(whole[:-1]) + '{"event":"en')
    done = repository.evenbench("report", "cut.jsonl")
    assert done.returncode == 1, done.stderr  # what it lacks may hold what is asked for
    assert "fail_on: the run did not come to its end" in done.stderr
    assert "partial" in done.stdout
    shown = repository.evenbench("report", "cut.jsonl", "--fail-on", "never")
    assert (shown.returncode, shown.stdout) == (0, done.stdout)


def _results(repository: Repository) -> list[str]:
    return [str(path) for path in sorted(Path(repository.path, ".evenbench").glob("*.jsonl"))]


def test_suites_of_base_judge(repository: Repository) -> None:
    """A pull request that loosens its own judge is judged by base's."""
    repository.commit({"cases/suites.yaml": SUITES.replace("min_effect: 0.05", "min_effect: 0.9")})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--output", "out.jsonl")
    assert done.returncode == 0, done.stderr
    header = json.loads((repository.path / "out.jsonl").read_text().splitlines()[0])
    assert header["judge"]["min_effect"] == 0.05


def test_overrides_of_min_effect_come_back_from_the_file(repository: Repository) -> None:
    repository.commit({"cases/suites.yaml": SUITES + "    overrides: {'quick/*': {min_effect: 0.5}}\n"})
    done = repository.evenbench("compare", "HEAD", "HEAD", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    [row] = json.loads((repository.path / "out.json").read_text())["rows"]
    assert row["min_effect"] == 0.5


def test_declared_twice_on_one_side_costs_that_sides_rows(repository: Repository) -> None:
    repository.commit({"cases/again.py": QUICK})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--json", "out.json")
    assert done.returncode == 4, done.stderr
    [row] = json.loads((repository.path / "out.json").read_text())["rows"]
    assert row["verdict"] == "failed"
    assert "declared twice: again.py" in row["reason"]


@pytest.mark.parametrize("deed", ["os._exit(0)", "os.abort()", "raise SystemExit(1)"])
def test_a_file_whose_import_ends_the_process_costs_only_its_cases(repository: Repository, deed: str) -> None:
    repository.commit({"cases/a_deadly.py": f"import os\n{deed}\n"})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "--json", "out.json")
    assert done.returncode == 1, done.stderr
    assert "fail_on: failed" in done.stderr  # head brought a file that cannot be imported
    [row] = json.loads((repository.path / "out.json").read_text())["rows"]
    assert row["rounds"] == 6
    listed = repository.evenbench("list")
    assert listed.stdout == "quick/sum\n"
    assert "a_deadly.py" in listed.stderr


def test_an_empty_shard_is_complete(repository: Repository) -> None:
    outputs = []
    for index in (0, 1):
        outputs.append(f"{index}.jsonl")
        done = repository.evenbench(
            "compare", "HEAD~1", "HEAD", "--shard", f"{index}/2", "--seed", "5", "--output", outputs[-1]
        )
        assert done.returncode == 0, done.stderr
    merged = repository.evenbench("report", *outputs)
    assert merged.returncode == 0, merged.stderr
    assert "partial" not in merged.stdout
    assert "quick/sum" in merged.stdout


def test_a_pattern_that_selects_nothing_beside_others_is_told(repository: Repository) -> None:
    done = repository.evenbench("run", "quick/*", "quik/*")
    assert done.returncode == 0, done.stderr
    assert "note: the pattern 'quik/*' selects no case" in done.stderr


def test_an_edit_during_the_run_makes_it_unreliable(repository: Repository) -> None:
    """A case of the run edits the tree that it is measured in, as a person might meanwhile."""
    edits = """
        from pathlib import Path
        from evenbench import Bench, case

        @case("edits/itself", device="cpu")
        def itself(p, device):
            Path("mylib.py").write_text("VALUE = 2\\n")
            return Bench(run=lambda: 1)
    """
    repository.commit({"mylib.py": "VALUE = 1\n", "cases/edits.py": edits})
    done = repository.evenbench("compare", "HEAD", "--output", "out.jsonl")
    assert "unreliable: edited while it was measured" in done.stdout
    assert "head: mylib.py" in done.stdout
    (repository.path / "log.txt").write_text("a log that is no code\n")
    clean = repository.evenbench("compare", "HEAD", "quick/*", "--output", "other.jsonl")
    assert "unreliable" not in clean.stdout


def test_a_bug_of_ours_is_told_apart_from_a_regression(repository: Repository) -> None:
    folder = repository.path / "gone"
    folder.mkdir()
    (repository.path / "out.jsonl").write_text("{}")
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl/under-a-file")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_a_reset_on_one_side_unbatches_both(repository: Repository) -> None:
    """In place and short: 19 calls after one reset would sort what is sorted already."""
    pure = """
        import numpy as np
        from evenbench import Bench, case

        @case("in/place", device="cpu")
        def place(p, device):
            x = np.random.standard_normal(256)
            return Bench(run=lambda: np.sort(x), inputs={"x": x}, reference=lambda: np.sort(x))
    """
    in_place = pure.replace(
        "return Bench(run=lambda: np.sort(x),",
        "y = x.copy()\n            return Bench(run=lambda: y.sort() or y, reset=lambda: np.copyto(y, x),",
    )
    repository.commit({"cases/place.py": pure})
    repository.commit({"cases/place.py": in_place})
    done = repository.evenbench("compare", "HEAD~1", "HEAD", "in/*", "--output", "out.jsonl")
    assert done.returncode in (0, 1), done.stderr
    events = [json.loads(line) for line in (repository.path / "out.jsonl").read_text().splitlines()]
    assert {event["batch"] for event in events if event["event"] == "measurement"} == {1}
    assert "wrong" not in done.stdout.splitlines()[0]
