"""What `evenbench init` writes, and what it leaves alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from evenbench.cli.main import main
from evenbench.runner.config import parse, resolve
from evenbench.runner.errors import UsageError
from evenbench.starter import files as module
from evenbench.starter.files import FILES, Source, Written, files_of, installed_source, write
from tests.fakes.repositories import Repository

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SOURCE = Source("me/evenbench", COMMIT)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "mine").mkdir()
    made = Repository(tmp_path / "mine")
    made.git("init", "-q")
    return made


def test_all_files_are_written_at_the_repositorys_root(repository: Repository) -> None:
    below = repository.path / "deep"
    below.mkdir()
    done = write(below, "cases", SOURCE, force=False)
    names = tuple(name.format(cases="cases") for name in FILES.values())
    assert done == Written(names, (), ())
    assert all((repository.path / name).is_file() for name in names)


def test_nothing_is_written_over_what_exists(repository: Repository) -> None:
    repository.write({"cases/suites.yaml": "mine\n"})
    done = write(repository.path, "cases", SOURCE, force=False)
    assert done.kept == ("cases/suites.yaml",)
    assert (repository.path / "cases/suites.yaml").read_text() == "mine\n"
    again = write(repository.path, "cases", SOURCE, force=False)
    assert (again.written, len(again.kept)) == ((), len(FILES))
    assert write(repository.path, "cases", SOURCE, force=True).kept == ()
    assert (repository.path / "cases/suites.yaml").read_text() != "mine\n"


@pytest.mark.parametrize("cases", ["cases", "benchmarks/gpu"])
def test_texts_name_the_folder_and_the_commit(cases: str) -> None:
    texts = files_of(cases, SOURCE)
    assert not any(word in text for text in texts.values() for word in ("CASES", "OWNER", "REF"))
    for name, text in texts.items():
        if "workflows" in name:
            (job,) = yaml.safe_load(text)["jobs"].values()
            assert job["uses"].startswith("me/evenbench/.github/workflows/")
            assert job["uses"].endswith(f".yml@{COMMIT}")
            assert job["with"]["cases"] == cases
    config = parse(texts[f"{cases}/suites.yaml"], "suites.yaml")
    assert resolve(config, None).suite == "pr"
    assert resolve(config, None).min_effect_for("example/scale[n=100000]") == 0.05


@pytest.mark.parametrize("cases", ["/abs", "../out", "a/../../b", ".", "", "with space", "a: b", "a\nb", "a'b"])
def test_a_folder_that_yaml_would_misread_is_refused(cases: str) -> None:
    with pytest.raises(UsageError, match="must be a plain folder inside the repository"):
        files_of(cases, SOURCE)


def test_a_link_out_of_the_repository_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (repository.path / ".github").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="leads out of the repository"):
        write(repository.path, "cases", SOURCE, force=True)
    assert list((tmp_path / "outside").iterdir()) == []


def test_the_folder_is_named_as_it_is_used(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--dir", str(repository.path), "--cases", "cases/"]) == 0
    said = capsys.readouterr().out
    assert "beside it in cases/, and" in said
    assert "--cases" not in said


def test_without_a_known_commit_the_workflows_are_left_out_and_said(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("evenbench.cli.verbs.github.init.installed_source", lambda: None)
    assert main(["init", "--dir", str(repository.path)]) == 0
    said = capsys.readouterr()
    assert "wrote cases/example.py" in said.out
    assert "--uses OWNER/REPOSITORY@COMMIT" in said.err
    assert not (repository.path / ".github").exists()
    assert main(["init", "--dir", str(repository.path), "--uses", f"me/evenbench@{COMMIT}"]) == 0
    said = capsys.readouterr()
    assert "wrote .github/workflows/evenbench.yml" in said.out
    assert "kept  cases/example.py" in said.out
    assert said.err == ""


@pytest.mark.parametrize(
    "uses", ["evenbench", "me/evenbench@main", f"me@{COMMIT}", f"me/e@{COMMIT[:39]}", f"a/b/c@{COMMIT}"]
)
def test_only_a_full_commit_pins(uses: str) -> None:
    with pytest.raises(UsageError, match="must be OWNER/REPOSITORY@COMMIT"):
        Source.parse(uses)


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/me/bench.git",
        "https://x@github.com/me/bench",
        "git@github.com:me/bench.git",
        "ssh://git@github.com/me/bench",
    ],
)
def test_a_checkout_knows_where_it_comes_from(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    commit = repository.commit({"evenbench/starter/files.py": "x"})
    monkeypatch.setattr(module, "__file__", str(repository.path / "evenbench/starter/files.py"))
    monkeypatch.setattr(metadata, "distribution", missing)
    assert installed_source() is None  # no origin
    repository.git("remote", "add", "origin", address)
    assert installed_source() == Source("me/bench", commit)
    repository.git("remote", "set-url", "origin", "https://example.org/me/bench")
    assert installed_source() is None


@pytest.mark.parametrize(
    ("note", "source"),
    [
        (
            {"url": "https://github.com/me/bench.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            Source("me/bench", COMMIT),
        ),
        ({"url": "https://example.org/me/bench", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, None),
        ({"url": "https://github.com/me/bench/archive/x.tar.gz", "archive_info": {}}, None),
        ({}, None),
    ],
)
def test_an_installed_evenbench_knows_it_from_pip(
    note: dict[str, object], source: Source | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps(note) if name == "direct_url.json" and note else None

    monkeypatch.setattr(module, "__file__", str(tmp_path / "evenbench/starter/files.py"))
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed())
    assert installed_source() == source


def missing(name: str) -> Callable[[], None]:
    raise metadata.PackageNotFoundError(name)
