"""Attacks by way of suites.yaml: a pull request's own is read where base has none, and an adopter's by its publisher."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenbench.cli.main import main
from tests import build
from tests.build import Case
from tests.fakes.desk import SAME, Desk
from tests.fakes.peak import peak_of

LAUGHS = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
HOSTILE = {
    "a billion laughs": (LAUGHS, "values, aliases written out"),
    "laughs by merging": (
        "version: 1\nx0: &x0 {a: 1}\n"
        + "".join(f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 90)}]}}\n" for n in range(1, 9)),
        "alias",
    ),
    "itself": ("version: 1\nsuites: &s {a: *s}\n", "contains itself"),
    "an object": ("version: !!python/object:evenbench.runner.case.Case {}\n", "only plain YAML is read"),
    "a call": ("version: !!python/object/apply:os.system ['touch pwned']\n", "only plain YAML is read"),
    "a new object": ("version: !!python/object/new:subprocess.Popen [[touch, pwned]]\n", "only plain YAML is read"),
    "a name": ("version: !!python/name:os.system ''\n", "only plain YAML is read"),
    "a module": ("version: !!python/module:pwned ''\n", "only plain YAML is read"),
    "a tag of its own": (
        "%TAG ! tag:yaml.org,2002:python/\n---\nversion: !object/apply:os.system ['touch pwned']\n",
        "only plain",
    ),
    "a tag of a key": ("!!python/object/apply:os.system ['touch pwned']: 1\n", "only plain YAML is read"),
    "an unknown key": ("version: 1\nlauncher: local\n", "launcher"),
    "an unknown key below": ("version: 1\nsuites: {pr: {include: ['**'], image: evil}}\n", "suites.pr"),
    "a key twice": ("version: 1\nsetup: a\nsetup: touch pwned\n", "stands here twice"),
    "another version": ("version: 99\n", "version"),
    "two documents": ("version: 1\n---\nversion: 1\n", "document"),
    "depth": ("version: " + "[" * 5_000 + "]" * 5_000 + "\n", "nested more than 16 deep"),
    "a number of 10,000 digits": (
        "version: 1\ndefaults: {rounds: " + "9" * 10_000 + "}\n",
        "not a value that can be read",
    ),
    "no number": ("version: 1\ndefaults: {measure_ms: .nan}\n", "measure_ms"),
    "infinity": ("version: 1\ndefaults: {timeout_s: .inf}\n", "timeout_s"),
    "out of bounds": ("version: 1\ncompare: {family_error: 2}\n", "family_error"),
    "zeros": ("\0" * 1_000, "special characters"),
    "2 MB": ("# " + "x" * (2 << 20) + "\nversion: 1\n", "longer than"),
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "results.jsonl"
    path.write_bytes(build.text(build.events([Case("a")])))
    return path


@pytest.mark.parametrize("attack", HOSTILE)
@pytest.mark.parametrize("verb", ["report", "compare"])
def test_it_is_one_line_of_refusal(results: Path, capsys: pytest.CaptureFixture[str], attack: str, verb: str) -> None:
    text, reason = HOSTILE[attack]
    Path("suites.yaml").write_text(text, encoding="utf-8")
    words = ["report", str(results)] if verb == "report" else ["compare", ".", "."]
    assert main([*words, "--config", "suites.yaml"]) == 2
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert error.startswith("error: ")
    assert reason in error
    assert len(error) < 500
    assert not Path("pwned").exists()


@pytest.mark.parametrize("attack", ["a billion laughs", "a call", "an unknown key"])
def test_a_publisher_says_so_and_writes_nothing(desk: Desk, attack: str) -> None:
    text, reason = HOSTILE[attack]
    said = desk.publish(desk.results(SAME), suites=text)
    assert (said.code, desk.fake.writes()) == (2, [])
    assert reason in said.err


def test_a_billion_laughs_take_no_memory(results: Path) -> None:
    Path("suites.yaml").write_text(LAUGHS, encoding="utf-8")
    plain, _ = peak_of("report", results)
    peak, done = peak_of("report", results, f"--config={Path('suites.yaml').absolute()}")
    assert done.returncode == 2
    assert peak < plain + (50 << 20)
