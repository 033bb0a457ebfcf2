"""Generated texts against their saved copies: names that cannot escape, links that are not followed, readable diffs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.artifacts.texts import COMPARED_MAX, DIFF_MAX, Texts, difference
from evenbench.runner.case.artifact_names import ARTIFACTS_MAX, NAME_PATTERN, TEXT_MAX
from evenbench.runner.case.declare import Bench, case
from evenbench.runner.errors import CaseError, UsageError
from evenbench.runner.records import Artifact
from evenbench.runner.worker.launch.instruments import Instruments
from evenbench.runner.worker.launch.prepare import give_texts, prepare_case


def message(name: Any = "k.cu", text: Any = "a\nb\n", case_id: str = "gen/k") -> dict[str, Any]:
    return {"event": "artifact", "case": case_id, "name": name, "text": text}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a cases directory, and a secret outside of it."""
    (tmp_path / "tree/cases/gen").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret\n")
    return tmp_path / "tree"


def held(tree: Path, *messages: dict[str, Any], file: str = "gen/k.py") -> Texts:
    texts = Texts(tree, "cases")
    for each in messages or (message(),):
        assert texts.take(file, each) == ""
    return texts


def status(texts: Texts) -> list[tuple[str, str]]:
    return [(each.name, each.status) for each in texts.records("head")]


class TestOfACase:
    @pytest.mark.parametrize(
        "name", ["../k.cu", "a/k.cu", "/k.cu", ".k.cu", "", "k\n.cu", "k.cu\0", "é.cu", "x" * 129, "-k"]
    )
    def test_a_name_is_a_plain_file_name(self, name: str) -> None:
        with pytest.raises(CaseError, match="must be a plain file name"):
            Bench(run=lambda: 0, artifacts={name: ""})

    @pytest.mark.parametrize(
        ("artifacts", "said"),
        [
            ({"k.cu": b"x"}, "must be text, not bytes"),
            ({"k.cu": "x" * TEXT_MAX}, "is longer than 900000 bytes"),
            ({f"{n}.cu": "" for n in range(ARTIFACTS_MAX + 1)}, "more than 100"),
            (["k.cu"], "must be a dict"),
        ],
    )
    def test_texts_are_bounded(self, artifacts: Any, said: str) -> None:
        with pytest.raises(CaseError, match=said):
            Bench(run=lambda: 0, artifacts=artifacts)

    def test_the_preparation_sends_them_before_anything_can_fail(self) -> None:
        def broken() -> None:
            raise RuntimeError("does not compile")

        sent = self.sent(prepare_case, Bench(run=broken, artifacts={"k.cu": "text"}))
        assert sent[0] == {"event": "artifact", "case": "gen/k", "name": "k.cu", "text": "text"}
        assert sent[1]["event"] == "case"
        assert sent[1]["status"] == "failed"

    def test_asked_for_texts_alone_nothing_is_called(self) -> None:
        def never() -> None:
            raise AssertionError

        sent = self.sent(give_texts, Bench(run=never, reference=never, artifacts={"k.cu": "text"}))
        assert [each["event"] for each in sent] == ["artifact", "case"]
        assert sent[1]["status"] == "ok"

    @staticmethod
    def sent(work: Any, bench: Bench) -> list[dict[str, Any]]:
        class Channel(list[dict[str, Any]]):
            send = list.append

        channel: Any = Channel()
        target = {"id": "gen/k", "cache": "warm", "timer": "auto", "allow_fallback": False}
        (point,) = case("gen/k")(lambda p, device: bench).points
        work(point, target, "cpu", Instruments(), channel)
        return channel  # type: ignore[no-any-return]


class TestAgainstSavedCopies:
    def test_new_then_saved_then_equal_then_changed(self, tree: Path) -> None:
        assert status(held(tree)) == [("k.cu", "new")]
        assert held(tree).save() == ["cases/gen/artifacts/k.cu"]
        assert (tree / "cases/gen/artifacts/k.cu").read_text() == "a\nb\n"
        assert status(held(tree)) == [("k.cu", "equal")]
        assert held(tree).save() == []
        changed = held(tree, message(text="a\nc\n"))
        (record,) = changed.records("head")
        assert record.status == "changed"
        assert record.diff.splitlines() == ["--- saved/k.cu", "+++ generated/k.cu", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]
        assert changed.save() == ["cases/gen/artifacts/k.cu"]
        assert [each.name for each in (tree / "cases/gen/artifacts").iterdir()] == ["k.cu"]  # nothing temporary is left

    def test_the_copies_of_a_folder_have_one_owner_each(self, tree: Path) -> None:
        texts = held(tree)
        assert "is also that of gen/k " in texts.take("gen/other.py", message(case_id="gen/other"))
        assert texts.take("other/k.py", message(case_id="other/k")) == ""  # another folder
        assert [(each.case, str(each.folder)) for each in texts] == [("gen/k", "gen"), ("other/k", "other")]

    @pytest.mark.parametrize("file", ["/etc/k.py", "../k.py", "gen/../../k.py", "k.py", "a\0b/k.py"])
    def test_a_case_file_elsewhere_has_its_copies_at_the_root(self, tree: Path, file: str) -> None:
        assert held(tree, file=file).save() == ["cases/artifacts/k.cu"]

    @pytest.mark.parametrize("name", ["../secret", "artifacts/../../secret", "/etc/passwd", "..", ".", "", 3, None])
    def test_a_name_from_a_launch_never_leaves_the_folder(self, tree: Path, name: Any) -> None:
        texts = Texts(tree, "cases")
        assert "no plain file name" in texts.take("gen/k.py", message(name))
        assert list(texts) == []

    @pytest.mark.parametrize("text", [None, b"", 3, "\0" * (TEXT_MAX // 6 + 1), "x" * TEXT_MAX])
    def test_a_launch_cannot_send_too_much(self, tree: Path, text: Any) -> None:
        assert "is no text, or too long" in Texts(tree, "cases").take("gen/k.py", message(text=text))

    def test_nor_too_many(self, tree: Path) -> None:
        texts = held(tree, *(message(f"{n}.cu") for n in range(ARTIFACTS_MAX)))
        assert "'one-more.cu' is one too many, beside 100 others" in texts.take("gen/k.py", message("one-more.cu"))
        assert len(list(texts)) == ARTIFACTS_MAX

    def test_halves_of_characters_become_question_marks(self, tree: Path) -> None:
        texts = held(tree, message(text="a\ud800b"))
        texts.save()
        assert (tree / "cases/gen/artifacts/k.cu").read_bytes() == b"a?b"
        assert status(texts) == [("k.cu", "equal")]

    def test_a_saved_link_is_neither_read_nor_written_through(self, tree: Path) -> None:
        folder = tree / "cases/gen/artifacts"
        folder.mkdir()
        (folder / "k.cu").symlink_to(tree.parent / "secret")
        texts = held(tree, message(text="mine\n"))
        assert [(each.status, each.diff) for each in texts.records("head")] == [("new", "")]
        assert texts.save() == ["cases/gen/artifacts/k.cu"]  # it takes the link's place
        assert not (folder / "k.cu").is_symlink()
        assert (tree.parent / "secret").read_text() == "secret\n"

    @pytest.mark.parametrize("link", ["cases/gen/artifacts", "cases/gen", "cases"])
    def test_a_folder_that_is_a_link_is_not_followed(self, tree: Path, link: str) -> None:
        elsewhere = tree.parent / "elsewhere"
        (elsewhere / "gen/artifacts").mkdir(parents=True)
        (elsewhere / "artifacts").mkdir()
        (elsewhere / "k.cu").write_text("secret\n")
        (elsewhere / "artifacts/k.cu").write_text("secret\n")
        (elsewhere / "gen/artifacts/k.cu").write_text("secret\n")
        place = tree / link
        if place.exists():
            place.rename(tree / "gone")
        place.symlink_to(elsewhere)
        texts = held(tree)
        assert status(texts) == [("k.cu", "new")]
        with pytest.raises(UsageError, match="a link on the way is not followed"):
            texts.save()
        assert {each.read_text() for each in elsewhere.rglob("k.cu")} == {"secret\n"}

    def test_what_is_no_file_is_no_copy(self, tree: Path) -> None:
        (tree / "cases/gen/artifacts/k.cu").mkdir(parents=True)
        os.mkfifo(tree / "cases/gen/artifacts/pipe.cu")  # nobody waits for its writer
        texts = held(tree, message(), message("pipe.cu"))
        assert status(texts) == [("k.cu", "new"), ("pipe.cu", "new")]
        with pytest.raises(UsageError, match=r"k\.cu cannot be written"):
            texts.save()

    def test_all_texts_are_written_out_by_the_folders_of_their_cases(self, tree: Path, tmp_path: Path) -> None:
        texts = held(tree, message(), message("other.cu"))
        texts.dump(tmp_path / "out/all")
        assert sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("out/**/*.cu")) == [
            "out/all/gen/k.cu",
            "out/all/gen/other.cu",
        ]

    @given(st.text(alphabet=st.characters(codec=None), max_size=20))
    def test_no_name_that_is_taken_has_a_folder(self, name: str) -> None:
        try:
            taken = Texts(None).take("k.py", message(name)) == ""
        except ValueError:
            taken = False
        assert taken == bool(NAME_PATTERN.fullmatch(name))
        assert not taken or ("/" not in name and name not in (".", ".."))


class TestDifference:
    def test_a_newline_that_is_missing_is_told(self) -> None:
        assert difference("a\n", "a", "k").splitlines()[-3:] == ["-a", "+a", "\\ No newline at end of file"]

    def test_other_line_ends_are_a_difference(self) -> None:
        assert difference("a\n", "a\r\n", "k").split("\n")[-2:] == ["-a", "+a␍"]

    def test_bytes_that_are_no_text_are_told(self, tree: Path) -> None:
        folder = tree / "cases/gen/artifacts"
        folder.mkdir()
        (folder / "k.cu").write_bytes(b"a\xff\n")
        (only,) = held(tree, message(text="a\ufffd\n")).records("head")
        assert only.diff.split("\n")[-2:] == [r"-a\xff", "+a\ufffd"]

    def test_long_lines_and_long_diffs_are_cut(self) -> None:
        found = difference("", "".join(f"{n} {'x' * 1_000}\n" for n in range(1_000)), "k")
        assert len(found) < DIFF_MAX + 100
        *lines, last = found.split("\n")
        assert max(map(len, lines)) == 500
        assert last == f"… {1_003 - len(lines):,} more lines of the diff"
        Artifact(side="head", case="a", name="k", status="changed", diff=found)

    def test_texts_too_long_to_be_aligned_show_where_they_begin_to_differ(self) -> None:
        same = [f"{n}\n" for n in range(COMPARED_MAX)]
        lines = difference("".join([*same, "old\n"]), "".join([*same, "new\n"]), "k").split("\n")
        assert lines[2] == "@@ -3998 +3998 @@ longer than 4,000 lines: only where they begin to differ"
        assert lines[3:] == [" 3997", " 3998", " 3999", "-old", "+new"]

    @given(st.text(max_size=80), st.text(max_size=80))
    def test_a_diff_is_empty_only_for_equal_texts(self, one: str, other: str) -> None:
        found = difference(one, other, "k")
        assert (found == "") == (one == other)
