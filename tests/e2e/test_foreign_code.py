"""Foreign repositories: their own names, their own libraries, and launches that misbehave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.fakes.repositories import QUICK, SUITES, Repository

# A repository with the names that are ours elsewhere: in a launch they are the user's.
OWN_NAMES = {
    "runner/__init__.py": "WHO = 'the user'\n",
    "runner/cli.py": "raise SystemExit('not for you')\n",
    "reports/__init__.py": "WHO = 'the user'\n",
    "reports/load.py": "WHO = 'the user'\n",
    "yaml.py": "WHO = 'the user'\n",
    "json.py": "raise ImportError('shadowed the standard library')\n",
    "cases/__init__.py": "WHO = 'the user'\n",
    "cases/_shared.py": "SIZE = 1000\n",
    "cases/names.py": """
        import cases, reports, reports.load, runner, yaml
        import numpy as np
        from evenbench import Bench, case
        from ._shared import SIZE

        assert {cases.WHO, reports.WHO, reports.load.WHO, runner.WHO, yaml.WHO} == {"the user"}

        @case("own/names", device="cpu")
        def names(p, device):
            import runner.more
            x = np.arange(float(SIZE))
            return Bench(run=lambda: runner.more.work(x), inputs={"x": x}, reference=lambda: x.sum())
    """,
    "runner/more.py": "def work(x):\n    return x.sum()\n",
    "cases/suites.yaml": SUITES,
}


def test_names_of_ours_belong_to_the_user(make_repository: Callable[[str], Repository]) -> None:
    repository = make_repository("own")
    repository.commit({name: text for name, text in OWN_NAMES.items() if name != "json.py"})
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "own/names" in done.stdout
    assert repository.evenbench("list").stdout == "own/names\n"
    tree = repository.evenbench("run", "--output", "tree.jsonl")
    assert tree.returncode == 0, tree.stderr + tree.stdout


def test_a_module_of_the_standard_library_is_not_shadowed_for_us(make_repository: Callable[[str], Repository]) -> None:
    repository = make_repository("shadow")
    repository.commit({"json.py": OWN_NAMES["json.py"], "cases/quick.py": QUICK, "cases/suites.yaml": SUITES})
    done = repository.evenbench("run", "--output", "out.jsonl")
    assert done.returncode == 0, done.stderr + done.stdout


def test_two_installed_versions_of_a_library(make_repository: Callable[[str], Repository]) -> None:
    """head's cases run on both sides; each side installs its own version in its set-up."""
    repository = make_repository("versions")
    versions = """
        import toolz
        from evenbench import Bench, case

        @case("toolz/frequencies", device="cpu")
        def frequencies(p, device):
            words = ["a", "b", "c"] * 2000
            expected = {"a": 2000, "b": 2000, "c": 2000}
            return Bench(run=lambda: sorted(toolz.frequencies(words).items()), reference=lambda: sorted(expected.items()))

        @case("toolz/version", device="cpu")
        def version(p, device):
            print("version", toolz.__version__, toolz.__file__)
            return Bench(run=lambda: toolz.__version__)
    """
    repository.commit({"README": "no cases yet\n"})
    repository.commit({"cases/versions.py": versions, "cases/suites.yaml": SUITES})
    done = repository.evenbench(
        "compare", "HEAD~1", "HEAD", "--cases-from", "head", "--output", "out.jsonl", "--json", "out.json",
        "--base-setup", "pip install --quiet --no-deps toolz==0.12.1",
        "--head-setup", "pip install --quiet --no-deps toolz==1.0.0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    assert rows["toolz/frequencies"]["verdict"] in ("unchanged", "inconclusive", "regressed", "improved")
    events = [json.loads(line) for line in (repository.path / "out.jsonl").read_text().splitlines()]
    results = {
        event["side"]: event["implementations"][0]["result"]
        for event in events
        if event["event"] == "case" and event["id"] == "toolz/version"
    }
    assert results["base"] != results["head"]  # two versions ran
    assert all(results.values())


MISBEHAVING = """
    import json, os, sys
    import numpy as np
    from evenbench import Bench, case

    @case("mis/floods", device="cpu")
    def floods(p, device):
        line = "x" * 99 + "\\n"
        for _ in range(100_000):
            sys.stdout.write(line)
        os.write(2, b"::add-mask::secret\\n")
        return Bench(run=lambda: 1, reference=lambda: 1)

    @case("mis/forges", device="cpu")
    def forges(p, device):
        forged = {"event": "measurement", "launch": 1, "case": "quick/sum", "implementation": "main", "timing": "host",
                  "device_busy_ns": [1] * 20, "latency_ns": [1] * 20, "cache": "warm", "stop": "count"}
        for descriptor in range(3, 40):
            try:
                os.write(descriptor, json.dumps(forged).encode() + b"\\n")
                os.write(descriptor, b"0" * 32 + b" " + json.dumps(forged).encode() + b"\\n")
            except OSError:
                pass
        return Bench(run=lambda: 1, reference=lambda: 1)

    @case("mis/babbles", device="cpu")
    def babbles(p, device):
        for descriptor in range(3, 40):
            try:
                os.write(descriptor, b"\\xff\\x00 garbage " * 200_000)
            except OSError:
                pass
        return Bench(run=lambda: 1, reference=lambda: 1)

    @case("mis/leaves-children", device="cpu")
    def leaves(p, device):
        if os.fork() == 0:
            import time
            time.sleep(600)
        return Bench(run=lambda: 1, reference=lambda: 1)

    @case("mis/quits", device="cpu")
    def quits(p, device):
        sys.exit(3)
"""


def test_misbehaving_launches_cost_at_most_themselves(repository: Repository) -> None:
    repository.commit({"cases/mis.py": MISBEHAVING})
    done = repository.evenbench("compare", "HEAD", "HEAD", "--output", "out.jsonl", "--json", "out.json")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "secret" not in done.stdout
    rows = {row["case"]: row for row in json.loads((repository.path / "out.json").read_text())["rows"]}
    assert rows["quick/sum"]["verdict"] in ("unchanged", "inconclusive")
    assert rows["quick/sum"]["base"]["device_busy_ms"] > 1e-5
    assert rows["mis/floods"]["verdict"] in ("unchanged", "inconclusive")
    assert rows["mis/babbles"]["verdict"] == "failed"
    assert rows["mis/quits"]["verdict"] == "failed"
    assert (repository.path / "out.jsonl").stat().st_size < 1 << 20
    output = (repository.path / "out.jsonl").read_text()
    assert '"device_busy_ns":[1,1,1' not in output


def test_a_directory_measured_in_place_stays_as_it_is(repository: Repository) -> None:
    repository.commit(
        {"mylib.py": "def work(x):\n    return x.sum()\n", "cases/more.py": QUICK.replace("quick", "more")}
    )
    before = sorted(path for path in repository.path.rglob("*") if ".git" not in path.parts)
    done = repository.evenbench("run", "--output", str(repository.path.parent / "out.jsonl"))
    assert done.returncode == 0, done.stderr
    assert sorted(path for path in repository.path.rglob("*") if ".git" not in path.parts) == before


def test_the_environment_of_a_launch_holds_no_secret(repository: Repository, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    repository.commit(
        {
            "cases/spy.py": f"""
                import os
                from pathlib import Path
                from evenbench import Bench, case

                @case("spy/environment", device="cpu")
                def environment(p, device):
                    Path({str(seen)!r}).write_text(repr(dict(os.environ)))
                    return Bench(run=lambda: 1)
            """
        }
    )
    done = repository.evenbench(
        "run", "spy/*", GITHUB_TOKEN="hush", ACTIONS_RUNTIME_TOKEN="hush", MY_API_KEY="hush", PYTHONPATH="/nowhere"
    )
    assert done.returncode == 0, done.stderr
    assert "hush" not in seen.read_text()
    assert "/nowhere" not in seen.read_text()
    assert "OPENBLAS_NUM_THREADS" in seen.read_text()
