"""The texts that the cases of a side generated, held against the copies saved beside the case files, both ways.

What a launch sends is foreign: a name becomes part of a path only when it is a plain file name, and the folder is told
by where the case file lies inside the cases directory. Copies are read from the tree on this machine, whatever holds
the launches.
"""

from __future__ import annotations

import difflib
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ..case.artifact_names import ARTIFACTS_MAX as OF_A_CASE_MAX
from ..case.artifact_names import FOLDER, NAME_PATTERN, TEXT_MAX, encoded_size
from ..errors import UsageError
from ..launchers.launcher import Message
from ..records import Artifact, SideName
from ..records.fields import ARTIFACTS_MAX
from ..words import count
from .stale_copies import stale_copies
from .tree_files import read_below, remove_below, write_below

ALL_TEXTS_MAX = 64 << 20  # characters of all texts of a side: the driver holds them until the run is over
ROOM = (
    f"a case may give {OF_A_CASE_MAX}, all cases {ARTIFACTS_MAX:,} of {ALL_TEXTS_MAX:,} characters; choose fewer cases"
)
DIFF_MAX = 60_000  # characters of a diff; a record takes some more
DIFF_LINE_MAX = 500  # characters of a line of it
COMPARED_MAX = 4_000  # lines of a text that are aligned with the other's: that takes the square of them
SHOWN_UNALIGNED = 100  # lines of each text shown where there are more
CONTEXT = 3  # lines around a change
CARRIAGE_RETURN = "␍"  # shown for one: else lines that differ by it alone look alike
NO_NEWLINE = "\n\\ No newline at end of file"


@dataclass(frozen=True)
class Generated:
    """A text: whose it is, and the folder of its case file, relative to the cases directory."""

    case: str
    folder: PurePosixPath
    name: str
    text: str


@dataclass
class Texts:
    """The texts of one side.

    Args:
        tree: the tree with the saved copies, on this machine; None for none.
        cases: the cases directory in it.
    """

    tree: Path | None = None
    cases: str = "cases"
    _found: dict[tuple[PurePosixPath, str], Generated] = field(default_factory=dict, init=False)
    _counts: Counter[str] = field(default_factory=Counter, init=False)  # of texts, by case
    _size: int = field(default=0, init=False)  # characters of all of them
    _stale: list[tuple[PurePosixPath, str]] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def __iter__(self) -> Iterator[Generated]:
        """In one order, whichever launch was first."""
        return iter([self._found[key] for key in sorted(self._found)])

    def take(self, file: str, message: Message) -> str:
        """Keep the text of a launch's message; what forbids to, and empty where nothing does.

        A case whose text is not kept must not count as one that told its texts: a saved copy of it would look stale.

        Args:
            file: where the case is declared, as the side's processes say.
        """
        case, name, text = message["case"], message.get("name"), message.get("text")
        if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
            return "an artifact whose name is no plain file name"
        if not isinstance(text, str) or encoded_size(text) > TEXT_MAX:
            return f"artifact {name!r} is no text, or too long"
        key = (_folder(file), name)
        with self._lock:  # launches on several GPUs end in threads of their own
            if key not in self._found:
                self._counts[case] += 1
                self._size += len(text)
                if (
                    self._counts[case] > OF_A_CASE_MAX
                    or self._counts.total() > ARTIFACTS_MAX
                    or self._size > ALL_TEXTS_MAX
                ):
                    return f"artifact {name!r} is one too many, beside {len(self._found):,} others (hint: {ROOM})"
                text = text.encode("utf-8", "replace").decode()  # halves of characters, which no file can hold
                self._found[key] = Generated(case, key[0], name, text)
            other = self._found[key]
        if other.case != case:
            return f"artifact {name!r} is also that of {other.case} (hint: put the parameters that it depends on into its name)"
        return ""

    def look_for_stale(self, cases: Iterable[tuple[str, bool]]) -> None:
        """Find the saved copies that no case gives any more, now that texts are told.

        Args:
            cases: of all cases of the side, where each is declared, and whether it has told its texts.
        """
        told: dict[PurePosixPath, bool] = {}
        for file, whole in cases:
            told[_folder(file)] = whole and told.get(_folder(file), True)
        self._stale = [] if self.tree is None else stale_copies(self.tree, self._parts(), self._found.keys(), told)

    def records(self, side: SideName) -> list[Artifact]:
        """An `artifact` line for each text, and for each stale copy that there is room for."""
        told = [self._record(side, each) for each in self]
        stale = [
            Artifact(side=side, case="", name="/".join([*self._beside(folder), name]), status="stale")
            for folder, name in self._stale
        ]
        return [*told, *stale][:ARTIFACTS_MAX]

    def _record(self, side: SideName, each: Generated) -> Artifact:
        saved = None
        if self.tree is not None:
            saved = read_below(self.tree, self._beside(each.folder), each.name, TEXT_MAX + 1)
        if saved is None:
            return Artifact(side=side, case=each.case, name=each.name, status="new")
        if saved == each.text.encode():
            return Artifact(side=side, case=each.case, name=each.name, status="equal")
        diff = difference(saved.decode("utf-8", "backslashreplace"), each.text, each.name)
        return Artifact(side=side, case=each.case, name=each.name, status="changed", diff=diff)

    def save(self) -> list[str]:
        """Write the saved copies anew; the names of those that were not as they are now. Raises UsageError."""
        written = []
        for each in self:
            if self.tree is None or self._record("head", each).status == "equal":
                continue
            folders = self._beside(each.folder)
            _write(self.tree, folders, each, make=1)
            written.append("/".join([*folders, each.name]))
        return written

    def remove_stale(self) -> list[str]:
        """Remove the saved copies that no case gives any more; their names. Raises UsageError."""
        removed = []
        for folder, name in self._stale:
            if self.tree is None:
                continue
            folders = self._beside(folder)
            try:
                remove_below(self.tree, folders, name)
            except FileNotFoundError:  # somebody was faster
                continue
            except OSError as error:
                where = self.tree.joinpath(*folders, name)
                raise UsageError(f"{where} cannot be removed: {error.strerror}", "remove it yourself") from None
            removed.append("/".join([*folders, name]))
        return removed

    def dump(self, directory: Path) -> None:
        """Write every text into a directory, in the folders of the case files. Raises UsageError."""
        for each in self:
            _write(directory, each.folder.parts, each, make=len(each.folder.parts))

    def _beside(self, folder: PurePosixPath) -> list[str]:
        """The way from the tree to the saved copies of the case files in a folder."""
        return [*self._parts(), *folder.parts, FOLDER]

    def _parts(self) -> Sequence[str]:
        return [part for part in PurePosixPath(self.cases).parts if part != "."]


def _folder(file: str) -> PurePosixPath:
    """The folder of a case file, inside the cases directory; its root for a file that lies elsewhere."""
    path = PurePosixPath(file)
    inside = not path.is_absolute() and ".." not in path.parts and "\0" not in file
    return path.parent if inside else PurePosixPath()


def _write(root: Path, folders: Sequence[str], each: Generated, make: int) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
        write_below(root, folders, each.name, each.text.encode(), make=make)
    except OSError as error:
        where = root.joinpath(*folders, each.name)
        raise UsageError(f"{where} cannot be written: {error.strerror}", "a link on the way is not followed") from None


def difference(saved: str, text: str, name: str) -> str:
    """A unified diff from a saved copy to a text, of bounded length, without a newline at its end."""
    old, new = _lines(saved), _lines(text)
    if max(len(old), len(new)) <= COMPARED_MAX:
        found = list(difflib.unified_diff(old, new, f"saved/{name}", f"generated/{name}", lineterm="", n=CONTEXT))
    else:
        found = [f"--- saved/{name}", f"+++ generated/{name}", *_unaligned(old, new)]
    lines = [line.replace("\r", CARRIAGE_RETURN) for each in found for line in each.split("\n")]
    kept: list[str] = []
    left = DIFF_MAX
    for line in lines:
        shown = line if len(line) <= DIFF_LINE_MAX else line[: DIFF_LINE_MAX - 1] + "…"
        left -= len(shown) + 1
        if left < 0:
            kept.append(f"… {count(len(lines) - len(kept), 'more line')} of the diff")
            break
        kept.append(shown)
    return "\n".join(kept)


def _unaligned(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Of texts too long to be aligned: where they begin to differ."""
    pairs = enumerate(zip(old, new, strict=False))
    at = next((number for number, (one, other) in pairs if one != other), min(len(old), len(new)))
    start, end = max(0, at - CONTEXT), at + SHOWN_UNALIGNED
    return [
        f"@@ -{start + 1} +{start + 1} @@ longer than {COMPARED_MAX:,} lines: only where they begin to differ",
        *(f" {line}" for line in old[start:at]),
        *(f"-{line}" for line in old[at:end]),
        *(f"+{line}" for line in new[at:end]),
    ]


def _lines(text: str) -> list[str]:
    """Without their newlines; a last line that has none says so."""
    *whole, rest = text.split("\n")
    return [*whole, rest + NO_NEWLINE] if rest else whole
