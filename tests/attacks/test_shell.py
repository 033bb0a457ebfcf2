"""Attacks by names: of branches, refs, patterns, folders and whatever a dispatch form sends. They stay names."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from evenbench.cli import grammar
from evenbench.cli.completion import script
from evenbench.cli.main import main
from tests.fakes.desk import SAME, Desk
from tests.fakes.github import run_event
from tests.fakes.repositories import QUICK, SUITES, Repository, errors

# Names that git takes for a branch, too, so no blanks in them.
NAMES = (
    "$(touch${IFS}pwned)",
    "`touch${IFS}pwned`",
    "a;touch${IFS}pwned",
    "a&&touch${IFS}pwned",
    "a|touch${IFS}pwned",
    "a'$(touch${IFS}pwned)'",
    'a"$(touch${IFS}pwned)"',
    "a${IFS}b>pwned",
)
# What can only be asked for: options of git, of ours, and of a shell.
WORDS = (
    "--upload-pack=touch pwned",
    "--output=pwned",
    "-o pwned",
    "ext::sh -c touch% pwned",
    "HEAD --output=pwned",
    "HEAD; touch pwned",
    "HEAD\ntouch pwned",
    "@{$(touch pwned)}",
    "../../pwned",
)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.made(tmp_path / "repository", {"cases/quick.py": QUICK, "cases/suites.yaml": SUITES})


def untouched(repository: Repository) -> bool:
    """Whether no command that a name holds was run."""
    return not list(repository.path.parent.rglob("pwned*"))


@pytest.mark.timing
def test_branches_named_like_commands_are_measured(repository: Repository) -> None:
    """All in one name, through checkout, set-up and table."""
    base, head = NAMES[0], "b;" + NAMES[1] + "|touch${IFS}pwned&&'\"$(touch${IFS}pwned)"
    for name in (base, head):
        repository.git("branch", name)
    done = repository.evenbench(
        "compare", "--head-setup=true", "--comment=comment.md", "--output=out.jsonl", "--", base, head
    )
    assert done.returncode == 0, done.stderr
    labels = [
        side["label"] for side in json.loads((repository.path / "out.jsonl").read_text().splitlines()[0])["sides"]
    ]
    assert labels == [base, head]
    assert untouched(repository)


@pytest.mark.parametrize("name", NAMES)
def test_plan_takes_them_for_branches(repository: Repository, name: str) -> None:
    repository.git("branch", name)
    repository.commit({"src/a.py": "x = 1\n"})
    done = repository.evenbench("plan", "--shards=2", f"--base={name}", "--head=HEAD", "--merge-base")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["base"] == repository.git("rev-parse", name)
    assert untouched(repository)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error that the command ends with, in this process and folder."""
    try:
        code = main(words)
    except SystemExit as left:  # the command line itself is wrong
        code = int(left.code or 0)
    out, error = capsys.readouterr()
    assert (code, out) == (2, "")
    [line] = [line for line in error.splitlines() if line.startswith("error: ")]
    return line


@pytest.mark.parametrize("word", [*NAMES, *WORDS])
@pytest.mark.parametrize("verb", ["compare", "plan"])
def test_what_is_no_ref_is_an_error(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str, word: str
) -> None:
    monkeypatch.chdir(repository.path)
    words = {"compare": ["--", word, "HEAD"], "plan": ["--shards=1", f"--base={word}", "--head=HEAD"]}[verb]
    assert refused([verb, *words], capsys).isprintable()
    assert untouched(repository)


@pytest.mark.parametrize("word", [*NAMES, *WORDS])
@pytest.mark.parametrize("option", ["--suite", "--cases", "--shard", "--rounds", "--config", "--gpu", "--seed"])
def test_what_a_form_sends_stays_a_value(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, word: str
) -> None:
    monkeypatch.chdir(repository.path)
    more = ["--seed=1"] if option == "--shard" else []
    refused(["compare", f"{option}={word}", *more, "--", "HEAD", "HEAD"], capsys)
    assert untouched(repository)


@pytest.mark.parametrize("word", [NAMES[0], NAMES[2], WORDS[0]])
def test_a_pattern_stays_a_pattern(repository: Repository, word: str) -> None:
    for words in (["--", "HEAD", "HEAD", word], [f"--plant={word}", "--", "HEAD", "HEAD"]):
        done = repository.evenbench("compare", *words)
        assert done.returncode == 2, done
        assert len(errors(done)) == 1
        assert untouched(repository)


@pytest.mark.parametrize("name", [*NAMES, *WORDS])
def test_resolve_and_publish_ask_for_the_branch_of_that_name(desk: Desk, name: str) -> None:
    """The branch of a stranger's pull request goes into the address of a request: as one value of it."""
    event = run_event(desk.fake, head_branch=name)
    said = desk.run("resolve", event)
    again = desk.publish(desk.results(SAME), event=event)
    assert (said.code, again.code) == (8, 0), (
        said
    )  # no pull request is of that branch, of which `publish` makes no failure
    assert not list(desk.folder.rglob("pwned*"))
    assert all("pwned" not in path.partition("?")[0] for path in (each.path for each in desk.fake.requests))


class TestCompletion:
    """A Tab offers names of branches, which bash would expand, and whoever takes one puts it on a command line."""

    ASKED = (
        ("bash", ("bash", "--norc", "--noprofile"), "source {}; _evenbench_side_or_dir ''"),
        ("zsh", ("zsh", "-f"), "source {}; compadd() {{ print -l -- $@ }}; _files() {{ }}; _evenbench_side"),
        ("fish", ("fish", "--no-config"), "source {}; complete -C 'evenbench compare '"),
    )

    @pytest.mark.parametrize(("shell", "command", "asked"), ASKED)
    def test_names_that_a_shell_would_expand_are_not_offered(
        self, repository: Repository, tool: Callable[[str], str], shell: str, command: tuple[str, ...], asked: str
    ) -> None:
        tool(shell)
        for name in (*NAMES, "größe/a_b-1.0+x", "fix#12"):
            repository.git("branch", name)
        file = repository.path.parent / "script"
        file.write_text(script(grammar.parser(), shell))
        done = subprocess.run(
            [*command, "-c", asked.format(file)], cwd=repository.path, capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(file.parent), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
        assert {"main", "größe/a_b-1.0+x", "fix#12"} <= set(offered)
        assert not [name for name in offered if set(name) & set("$`;&|'\"<>")]
        assert untouched(repository)
