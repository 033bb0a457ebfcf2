"""Saved copies that no case gives any more: which are told, which nobody can tell, and which are left alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evenbench.runner.artifacts import stale_copies
from evenbench.runner.artifacts.texts import Texts
from evenbench.runner.case.artifact_names import TEXT_MAX
from evenbench.runner.errors import UsageError
from evenbench.runner.execute.execute import _look_for_stale
from evenbench.runner.plan.selection import Broken, Crew, DiscoveredCase, SideCases
from evenbench.runner.records import Artifact, CaseEvent
from evenbench.runner.records.fields import ARTIFACTS_MAX

SAVED = "cases/gen/artifacts"
TOLD = (("gen/k.py", True),)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree in which a case file lies beside two copies, and a secret outside of it."""
    (tmp_path / "secret").write_text("secret")
    files = ("cases/gen/k.py", f"{SAVED}/k.cu", f"{SAVED}/old.cu")
    return grown(tmp_path / "tree", *files)


def grown(tree: Path, *files: str) -> Path:
    for name in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("text")
    return tree


def looked(tree: Path, *cases: tuple[str, bool], cases_folder: str = "cases") -> Texts:
    """The texts of a side whose case `gen/k` gives one, after the search."""
    texts = Texts(tree, cases_folder)
    assert texts.take("gen/k.py", {"event": "artifact", "case": "gen/k", "name": "k.cu", "text": "text"}) == ""
    texts.look_for_stale(cases)
    return texts


def stale(texts: Texts) -> list[str]:
    return [each.name for each in texts.records("head") if each.status == "stale"]


class TestWhichAreTold:
    def test_a_copy_that_no_case_gives(self, tree: Path) -> None:
        texts = looked(tree, *TOLD)
        assert texts.records("head") == [
            Artifact(side="head", case="gen/k", name="k.cu", status="equal"),
            Artifact(side="head", case="", name=f"{SAVED}/old.cu", status="stale"),
        ]

    def test_the_name_is_that_of_another_folder(self, tree: Path) -> None:
        grown(tree, "cases/other/k.py", "cases/other/artifacts/k.cu")
        assert stale(looked(tree, *TOLD, ("other/k.py", True))) == [f"{SAVED}/old.cu", "cases/other/artifacts/k.cu"]

    @pytest.mark.parametrize("folder", ["", "./cases", "cases/"])
    def test_wherever_the_cases_directory_lies(self, tree: Path, folder: str) -> None:
        moved = tree / "cases" if not folder else tree
        assert stale(looked(moved, *TOLD, cases_folder=folder)) == [f"{'cases/' if folder else ''}gen/artifacts/old.cu"]

    def test_a_folder_that_lost_its_case_files(self, tree: Path) -> None:
        grown(tree, "cases/moved/away/artifacts/a.cu", "cases/moved/away/notes.txt")
        assert stale(looked(tree, *TOLD)) == [f"{SAVED}/old.cu", "cases/moved/away/artifacts/a.cu"]

    def test_but_none_where_the_whole_tree_is_the_cases_directory(self, tree: Path) -> None:
        """Of a tree's folders called so most are not of cases."""
        grown(tree, "cases/docs/artifacts/a.txt")
        assert stale(looked(tree / "cases", *TOLD, cases_folder=".")) == ["gen/artifacts/old.cu"]

    def test_no_more_than_a_file_may_tell(self, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        grown(tree, *(f"{SAVED}/{n}.cu" for n in range(5)))
        monkeypatch.setattr("evenbench.runner.artifacts.texts.ARTIFACTS_MAX", 3)
        assert len(looked(tree, *TOLD).records("head")) == 3
        monkeypatch.setattr(stale_copies, "ARTIFACTS_MAX", 2)
        assert len(looked(tree, *TOLD).remove_stale()) == 2
        assert ARTIFACTS_MAX > 5

    def test_folders_are_bounded(self, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        grown(tree, "cases/a/notes.txt")
        monkeypatch.setattr(stale_copies, "FOLDERS_MAX", 2)
        assert stale(looked(tree, *TOLD)) == []


class TestWhichNobodyCanTell:
    @pytest.mark.parametrize("other", ["gen/k.py", "gen/other.py"])
    @pytest.mark.parametrize("first", [True, False])
    def test_beside_a_case_that_has_not_told_its_texts(self, tree: Path, other: str, first: bool) -> None:
        cases = [*TOLD, (other, False)]
        assert stale(looked(tree, *(cases if first else cases[::-1]))) == []

    def test_a_case_of_another_folder_has_no_say(self, tree: Path) -> None:
        grown(tree, "cases/other/k.py", "cases/other/artifacts/a.cu", "cases/gen/below/k.py")
        cases = (*TOLD, ("other/k.py", False), ("gen/below/k.py", False))
        assert stale(looked(tree, *cases)) == [f"{SAVED}/old.cu"]

    @pytest.mark.parametrize("file", ["/lib/k.py", "../k.py", "k.py"])
    def test_a_case_declared_elsewhere_has_its_copies_at_the_root(self, tree: Path, file: str) -> None:
        grown(tree, "cases/artifacts/a.cu")
        assert stale(looked(tree, *TOLD, (file, False))) == [f"{SAVED}/old.cu"]
        assert stale(looked(tree, *TOLD, (file, True))) == ["cases/artifacts/a.cu", f"{SAVED}/old.cu"]

    def test_beside_python_files_without_a_case(self, tree: Path) -> None:
        grown(tree, "cases/elsewhere/artifacts/a.cu", "cases/elsewhere/for_other_machines.py")
        assert stale(looked(tree, *TOLD)) == [f"{SAVED}/old.cu"]
        (tree / "cases/elsewhere/for_other_machines.py").unlink()
        (tree / "cases/elsewhere/linked.py").symlink_to(tree / "cases/gen/k.py")
        assert stale(looked(tree, *TOLD)) == [f"{SAVED}/old.cu"]

    @pytest.mark.parametrize("folder", [".hidden", "__pycache__", "artifacts"])
    def test_where_discovery_does_not_look(self, tree: Path, folder: str) -> None:
        grown(tree, f"cases/gen/{folder}/artifacts/a.cu")
        assert stale(looked(tree, *TOLD)) == [f"{SAVED}/old.cu"]

    @pytest.mark.parametrize("folder", [os.fsdecode(b"a\xff"), "/".join(["x" * 200] * 5)])
    def test_in_a_folder_that_no_record_can_name(self, tree: Path, folder: str) -> None:
        grown(tree, f"cases/{folder}/artifacts/a.cu")
        assert stale(looked(tree, *TOLD)) == [f"{SAVED}/old.cu"]

    @pytest.mark.parametrize(
        ("statuses", "broken", "said"),
        [
            (["ok", "ok"], [], [f"{SAVED}/old.cu"]),
            (["ok", "failed"], [], []),
            (["ok", "skipped"], [], []),
            (["ok", "wrong"], [], []),
            (["ok"], [], []),  # the other was not chosen
            (["ok", "ok"], ["gen/b.py"], []),
            (["ok", "ok"], ["elsewhere/b.py"], []),  # a helper of `gen` may declare its cases
            (["ok", "ok"], [""], []),
        ],
    )
    def test_unless_the_whole_side_is_known(
        self, tree: Path, statuses: Sequence[Any], broken: Sequence[str], said: Sequence[str]
    ) -> None:
        points = {
            name: DiscoveredCase(event="point", id=name, file="gen/k.py", line=1, on_cpu=True, source="0")
            for name in ("gen/a", "gen/b")
        }
        found = SideCases(points, [Broken(event="broken", file=file, error="no") for file in broken])
        prepared = {
            name: CaseEvent(index=0, side="head", id=name, file="gen/k.py", status=status)
            for name, status in zip(points, statuses, strict=False)
        }
        texts = looked(tree)
        crew = Crew(Any, Any, "cases", texts)  # type: ignore[arg-type]
        _look_for_stale(crew, found, prepared)
        assert stale(texts) == [*said]


class TestWhichAreLeftAlone:
    def test_what_cannot_have_been_saved_as_a_copy(self, tree: Path) -> None:
        folder = tree / SAVED
        (folder / ".gitattributes").write_text("* -text")
        (folder / "a name.cu").write_text("text")
        (folder / "weights.bin").write_bytes(b"\xff\xfe")
        (folder / "long.cu").write_text("x" * TEXT_MAX)
        (folder / "longer.cu").write_text("x" * (TEXT_MAX + 1))
        (folder / "link.cu").symlink_to(tree.parent / "secret")
        (folder / "below").mkdir()
        os.mkfifo(folder / "pipe.cu")  # nobody waits for its writer
        texts = looked(tree, *TOLD)
        assert stale(texts) == [f"{SAVED}/old.cu"]
        before = {each.name for each in folder.iterdir()}
        assert texts.remove_stale() == [f"{SAVED}/old.cu"]
        assert before - {each.name for each in folder.iterdir()} == {"old.cu"}

    @pytest.mark.parametrize("link", [SAVED, "cases/gen", "cases"])
    def test_what_lies_behind_a_link(self, tree: Path, link: str) -> None:
        (tree / link).rename(tree.parent / "elsewhere")
        (tree / link).symlink_to(tree.parent / "elsewhere")
        assert stale(looked(tree, *TOLD)) == []

    def test_nothing_is_removed_through_a_link_that_came_meanwhile(self, tree: Path) -> None:
        texts = looked(tree, *TOLD)
        (tree / SAVED).rename(tree.parent / "elsewhere")
        (tree / SAVED).symlink_to(tree.parent / "elsewhere")
        with pytest.raises(UsageError, match=r"old\.cu cannot be removed: .* \(hint: remove it yourself\)"):
            texts.remove_stale()
        assert (tree.parent / "elsewhere/old.cu").exists()

    def test_what_is_gone_by_then_is_not_told_as_removed(self, tree: Path) -> None:
        texts = looked(tree, *TOLD)
        (tree / SAVED / "old.cu").unlink()
        assert texts.remove_stale() == []

    def test_without_a_tree_there_are_none(self) -> None:
        texts = Texts(None)
        texts.look_for_stale(TOLD)
        assert (texts.records("head"), texts.remove_stale()) == ([], [])


@pytest.mark.parametrize(("case", "status"), [("", "equal"), ("", "new"), ("", "changed"), ("gen/k", "stale")])
def test_a_record_of_a_stale_copy_and_no_other_is_of_no_case(case: str, status: Any) -> None:
    with pytest.raises(ValidationError, match="a stale copy is of no case"):
        Artifact(side="head", case=case, name="k.cu", status=status)
