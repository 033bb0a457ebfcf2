"""Generated texts and expectations, through the real command on the host's timer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evenbench.cli.main import main
from evenbench.runner.errors import UnfitMachine
from evenbench.runner.plan.expectations import cpu_model
from tests.fakes.repositories import Repository, errors

CASES = """
    import time
    from pathlib import Path
    import numpy as np
    from evenbench import Bench, Work, case
    from .loops import text

    BUILT = Path(__file__).parents[3] / "built"  # a line for each time that the slow starter was built

    @case("gen/copy", params={"n": [1000]}, device="cpu", tags={"pr"})
    def copy(p, device):
        x = np.arange(float(p.n))
        return Bench(
            run=lambda: x.copy(), inputs={"x": x}, reference=lambda: x.copy(),
            work=Work(dtype="float64", bytes_read=x.nbytes, bytes_written=x.nbytes),
            artifacts={f"copy_{p.n}.cu": text(p.n), "fixed.cu": "int x;"},
        )

    @case("gen/starter", device="cpu", tags={"slow"}, iterations=3)
    def starter(p, device):
        with BUILT.open("a") as file:
            file.write("built\\n")
        slow = len(BUILT.read_text().splitlines()) <= 2  # for the preparation, and for the first timed launch
        return Bench(run=lambda: time.sleep(0.3 if slow else 0.0))
"""
LOOPS = """
    def text(n):
        return "".join(f"for (int i = {k}; i < {n}; i += 8)\\n    y[i] = x[i];\\n" for k in range(8))
"""
SUITES = """
    version: 1
    defaults: {measure_ms: 5, warmup_ms: 1, rounds: 6, max_rounds: 6, cache: warm}
    suites:
      pr: {include: ["tag:pr"]}
      slow: {include: ["tag:slow"]}
"""
CHANGED = {"cases/gen/loops.py": LOOPS.replace("i += 8", "i += 4")}


@pytest.fixture
def generating(make_repository: Callable[[str], Repository]) -> Repository:
    """A repository with a case that generates two texts, none of them saved."""
    made = make_repository("generating")
    made.commit({"cases/gen/copy.py": CASES, "cases/gen/loops.py": LOOPS, "cases/suites.yaml": SUITES})
    return made


def figures(**metrics: str) -> str:
    """An expectations.yaml of this machine's CPU and a GPU elsewhere, for one row."""
    lines = "".join(f"        {metric}: {{{figure}, measured: 2026, by: me}}\n" for metric, figure in metrics.items())
    gpu = "  NVIDIA A:\n    gen/starter:\n      main:\n        tflops: {value: 1, rtol: 0, measured: 2026, by: me}\n"
    name = json.dumps(cpu_model())
    return f'version: 1\ndevices:\n{gpu}  {name}:\n    "gen/copy[n=1000]":\n      main:\n{lines}'


def events(path: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in found if event["event"] == kind]


def test_a_changed_pass_shows_as_artifact_changed_with_its_diff_and_keeps_its_times(generating: Repository) -> None:
    refused = generating.evenbench("run", "--artifacts-only", "--update-artifacts", CI="true")
    assert refused.returncode == 2
    assert errors(refused)[0].startswith("error: --update-artifacts: refused where CI is set")
    assert not (generating.path / "cases/gen/artifacts").exists()
    updated = generating.evenbench("run", "--artifacts-only", "--update-artifacts", "--dump-sources", "out/all", CI="")
    assert updated.returncode == 0, updated.stderr
    assert updated.stdout.splitlines()[0] == "evenbench: artifacts against their saved copies: 2 new"
    assert "saved anew: cases/gen/artifacts/copy_1000.cu" in updated.stderr
    assert (generating.path / "out/all/gen/fixed.cu").read_text() == "int x;"
    equal = generating.evenbench("run", "--artifacts-only")
    assert (equal.returncode, equal.stdout.splitlines()[0]) == (
        0,
        "evenbench: artifacts against their saved copies: 2 equal",
    )

    generating.write(CHANGED)
    done = generating.evenbench("run", "--output", "out.jsonl", "--json", "out.json")
    assert done.returncode == 0, done.stderr  # only where it is asked for
    assert done.stdout.splitlines()[0] == "evenbench: 1 measured, 1 artifact changed"
    assert "-for (int i = 0; i < 1000; i += 8)\n+for (int i = 0; i < 1000; i += 4)\n     y[i] = x[i];" in done.stdout
    data = json.loads((generating.path / "out.json").read_text())
    (row,) = data["rows"]
    assert row["times"]["device_busy_ms"] > 0
    assert row["check"] == "passed"
    assert "artifact changed" in row["notes"]
    assert [(each["name"], each["status"]) for each in data["artifacts"]] == [
        ("copy_1000.cu", "changed"),
        ("fixed.cu", "equal"),
    ]
    again = generating.evenbench("report", "out.jsonl", "--fail-on", "artifact")
    assert (again.returncode, again.stdout) == (1, done.stdout)
    assert "fail_on: artifact" in again.stderr


def test_a_comparison_holds_each_side_against_its_own_copies(generating: Repository) -> None:
    saved = "".join(f"for (int i = {k}; i < 1000; i += 8)\n    y[i] = x[i];\n" for k in range(8))
    folder = generating.path / "cases/gen/artifacts"
    folder.mkdir()
    (folder / "copy_1000.cu").write_text(saved)
    (folder / "fixed.cu").write_text("int x;")
    generating.commit({})
    generating.commit(CHANGED)
    done = generating.evenbench(
        "compare", "HEAD~1", "HEAD", "--output", "out.jsonl", "--fail-on", "artifact", "--dump-sources", "out"
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0].endswith(", 1 artifact changed")
    assert "+for (int i = 0; i < 1000; i += 4)" in done.stdout
    found = {(each["side"], each["name"]): each["status"] for each in events(generating.path / "out.jsonl", "artifact")}
    assert found == {
        ("base", "copy_1000.cu"): "equal",
        ("base", "fixed.cu"): "equal",
        ("head", "copy_1000.cu"): "changed",
        ("head", "fixed.cu"): "equal",
    }
    texts = [(generating.path / "out" / side / "gen/copy_1000.cu").read_text() for side in ("base", "head")]
    assert ["i += 8" in text for text in texts] == [True, False]


def test_copies_behind_links_are_neither_read_nor_written(generating: Repository) -> None:
    secret = generating.path.parent / "elsewhere"
    secret.mkdir()
    (secret / "fixed.cu").write_text("secret")
    (generating.path / "cases/gen/artifacts").symlink_to(secret)
    done = generating.evenbench("run", "--artifacts-only", "--update-artifacts", "--json", "out.json", CI="")
    assert done.returncode == 2
    assert "fixed.cu cannot be written" in errors(done)[0] or "copy_1000.cu cannot be written" in errors(done)[0]
    assert "secret" not in (generating.path / "out.json").read_text()
    assert [each.name for each in secret.iterdir()] == ["fixed.cu"]
    ref = generating.evenbench("run", "--in", "HEAD", "--update-artifacts", CI="")
    assert (ref.returncode, errors(ref)) == (
        2,
        ["error: --update-artifacts: a git ref cannot be written to (hint: name a directory, or leave --in out)"],
    )


@pytest.mark.timeout(600)
def test_in_the_sandbox_only_the_texts_leave_the_container(generating: Repository, host: Mapping[str, str]) -> None:
    arguments = ("run", "--artifacts-only", "--update-artifacts")
    done = generating.evenbench(*arguments, "--launcher", "podman", CI="", **host)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "evenbench: artifacts against their saved copies: 2 new"
    assert (generating.path / "cases/gen/artifacts/fixed.cu").read_text() == "int x;"


def test_texts_are_asked_for_on_a_machine_that_is_not_fit_to_measure(
    generating: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unfit(*_: object, **__: object) -> None:
        raise UnfitMachine("another tenant", "wait")

    monkeypatch.chdir(generating.path)
    monkeypatch.setattr("evenbench.runner.machine.doctor.check_before_run", unfit)
    assert main(["run", "--artifacts-only", "--output", "texts.jsonl"]) == 1  # the texts are new
    assert "2 new" in capsys.readouterr().out
    assert main(["run", "--output", "times.jsonl"]) == UnfitMachine.exit_code


def test_texts_that_take_each_others_place_are_an_error(generating: Repository) -> None:
    generating.write({"cases/gen/copy.py": CASES.replace('"n": [1000]', '"n": [1000, 2000]')})
    done = generating.evenbench("run", "--artifacts-only", CI="")
    assert done.returncode == 1
    assert "artifact 'fixed.cu' is also that of gen/copy[n=1000]" in done.stdout


def test_expectations_are_met_or_not_in_three_attempts_at_most(generating: Repository) -> None:
    wanted = figures(
        device_busy_ms="value: 1, rtol: 0, atol: 1000000",
        bandwidth_tbs="value: 1000000, rtol: 0.05",
    )
    generating.write({"cases/expectations.yaml": wanted})
    done = generating.evenbench("run", "--output", "out.jsonl", "--fail-on", "expectation", "--json", "out.json")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0].startswith("evenbench: 1 measured, 2 artifacts new, 1 expectation not met")
    data = json.loads((generating.path / "out.json").read_text())
    found = {each["metric"]: (each["outcome"], len(each["attempts"])) for each in data["expectations"]}
    assert found == {"device_busy_ms": ("met", 1), "bandwidth_tbs": ("worse", 3)}
    assert [look["rounds"] for look in events(generating.path / "out.jsonl", "look")] == [1, 2]
    assert len(events(generating.path / "out.jsonl", "measurement")) == 3
    again = generating.evenbench("report", "out.jsonl")
    assert (again.returncode, again.stdout) == (1, done.stdout)

    # What was interrupted after the first attempt goes on with the second.
    whole = (generating.path / "out.jsonl").read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(whole) if '"event":"look"' in line)
    (generating.path / "cut.jsonl").write_text("".join(whole[: at + 1]))
    (generating.path / "out.jsonl").unlink()
    (generating.path / "out.json").unlink()
    resumed = generating.evenbench("run", "--output", "cut.jsonl", "--fail-on", "expectation", "--resume")
    assert resumed.returncode == 1, resumed.stderr
    assert "in 3 attempts" in resumed.stdout
    assert len(events(generating.path / "cut.jsonl", "expectation")) == 2
    assert len(events(generating.path / "cut.jsonl", "artifact")) == 2


def test_a_row_that_meets_its_expectation_later_is_flaky(generating: Repository) -> None:
    wanted = figures(device_busy_ms="value: 0.001, rtol: 0, atol: 150")
    generating.write({"cases/expectations.yaml": wanted.replace('"gen/copy[n=1000]"', "gen/starter")})
    done = generating.evenbench("run", "--suite", "slow", "--fail-on", "expectation", "--output", "out.jsonl")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == "evenbench: 1 measured, 1 flaky"
    assert "as expected, flaky" in done.stdout
    assert "in 2 attempts" in done.stdout


def test_what_launches_amount_to_is_proposed_and_then_met(generating: Repository) -> None:
    shown = generating.evenbench("expect", "--rounds", "3", "--output", "out.jsonl")
    assert shown.returncode == 0, shown.stderr
    assert "+++ b/cases/expectations.yaml" in shown.stdout
    assert not (generating.path / "cases/expectations.yaml").exists()
    written = generating.evenbench("expect", "gen/*", "--from", "out.jsonl", "--write")
    assert (written.returncode, written.stdout) == (0, shown.stdout)
    text = (generating.path / "cases/expectations.yaml").read_text()
    assert "bandwidth_tbs: {value: " in text
    same = generating.evenbench("expect", "--from", "out.jsonl")
    assert (same.returncode, same.stdout) == (0, "")
    generating.write({"cases/expectations.yaml": text.replace("bandwidth_tbs", "bandwith_tbs")})
    bad = generating.evenbench("run")
    assert bad.returncode == 2
    assert "did you mean 'bandwidth_tbs'?" in errors(bad)[0]
