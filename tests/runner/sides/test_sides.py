from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenbench
from evenbench.runner import sides
from evenbench.runner.errors import ConfigError, NothingMeasured, UsageError
from evenbench.runner.records import SideName
from evenbench.runner.sides import (
    Checkout,
    Side,
    Sides,
    SideSpec,
    check_out,
    check_preload,
    checkouts,
    copy_tree,
    prepare,
    side_config_text,
)
from evenbench.runner.sides.checkouts import SUITES_MAX, owned_prefix, prune_stale
from evenbench.runner.sides.trees import tree_files, tree_hash

UNKNOWN_SHA = "0" * 40


def git(cwd: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(root: Path, **files: str) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "--message", "change")
    return git(root, "rev-parse", "HEAD")


def new_repository(root: Path) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch", "main")
    return root


def state(repo: Path) -> tuple[str, str, str, str]:
    """What a run must leave as it was: worktrees, refs, configuration, changes."""
    return (
        git(repo, "worktree", "list", "--porcelain"),
        git(repo, "for-each-ref"),
        (repo / ".git" / "config").read_text(),
        git(repo, "status", "--porcelain"),
    )


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Two commits; the first is tagged `first` and has version 1 of `mylib.py`."""
    root = new_repository(tmp_path / "repo")
    commit(root, **{"mylib.py": "VERSION = 1\n", ".gitignore": "build/\n"})
    git(root, "tag", "first")
    commit(root, **{"mylib.py": "VERSION = 2\n"})
    return root


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    path = tmp_path / "scratch"
    path.mkdir()
    return path


@pytest.fixture
def local_submodules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "gitconfig"
    config.write_text('[protocol "file"]\n\tallow = always\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))


# ------------------------------------------------------------------------------------------------------------ targets


def test_ref_becomes_a_detached_worktree(repo: Path, scratch: Path) -> None:
    before = state(repo)
    found = check_out(SideSpec("base", "first"), repo, scratch)
    assert (found.name, found.kind, found.label, found.dirty, found.tree) == ("base", "ref", "first", False, "")
    assert found.sha == git(repo, "rev-parse", "first")
    assert (found.root / "mylib.py").read_text() == "VERSION = 1\n"
    assert found.root.is_relative_to(scratch)
    sides.release(found, repo)
    assert not found.root.exists()
    assert state(repo) == before


def test_annotated_tags_and_expressions_name_their_commit(repo: Path, scratch: Path) -> None:
    git(repo, "tag", "--annotate", "--message", "m", "v1", "first")
    first = git(repo, "rev-parse", "first")
    for target in ("v1", "HEAD~1", first, first[:9]):
        found = check_out(SideSpec("base", target), repo, scratch)
        assert found.sha == first
        sides.release(found, repo)


@pytest.mark.parametrize(("target", "hint"), [("frist", "first"), ("mian", "main"), ("trunk", "upstream/trunk")])
def test_unknown_ref_names_close_ones(repo: Path, scratch: Path, target: str, hint: str) -> None:
    git(repo, "update-ref", "refs/remotes/upstream/trunk", "HEAD")
    with pytest.raises(UsageError) as raised:
        check_out(SideSpec("base", target), repo, scratch)
    assert target in raised.value.message
    assert raised.value.hint == f"did you mean {hint}?"


@pytest.mark.parametrize("target", ["--help", "-h", "--output=x", "", "main..first", "HEAD:mylib.py", "nope"])
def test_odd_targets_are_no_options(repo: Path, scratch: Path, target: str) -> None:
    with pytest.raises(UsageError, match="unknown ref or directory"):
        check_out(SideSpec("base", target), repo, scratch)


def test_ref_goes_before_directory_unless_written_as_one(
    repo: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "branch", "topic/one")
    (repo / "topic" / "one").mkdir(parents=True)
    (repo / "only").mkdir()
    monkeypatch.chdir(repo)
    kinds = {}
    for target in ("topic/one", "./topic/one", str(repo / "topic" / "one"), "only", "topic"):
        found = check_out(SideSpec("base", target), repo, scratch)
        kinds[target] = (found.kind, found.root if found.kind == "directory" else None)
        sides.release(found, repo)
    folder = repo / "topic" / "one"
    assert kinds == {
        "topic/one": ("ref", None),
        "./topic/one": ("directory", folder),
        str(folder): ("directory", folder),
        "only": ("directory", repo / "only"),
        "topic": ("directory", repo / "topic"),
    }


def test_missing_directory(repo: Path, scratch: Path) -> None:
    with pytest.raises(UsageError, match="no such directory: ./nowhere"):
        check_out(SideSpec("head", "./nowhere"), repo, scratch)


def test_ref_without_a_repository(tmp_path: Path, scratch: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    with pytest.raises(UsageError, match="is no git repository"):
        check_out(SideSpec("base", "main"), plain, scratch)


def test_missing_git_is_named(repo: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(scratch))
    with pytest.raises(UsageError, match="git is not installed"):
        check_out(SideSpec("base", "main"), repo, scratch)


# ------------------------------------------------------------------------------------------ the working tree, directories


def test_working_tree_clean_then_dirty(repo: Path, scratch: Path) -> None:
    (repo / "build").mkdir()
    (repo / "build" / "ignored.o").write_text("x")
    (repo / "__pycache__").mkdir()
    (repo / "__pycache__" / "mylib.pyc").write_text("x")
    spec = SideSpec("head", None)
    clean = check_out(spec, repo / "build", scratch)
    assert clean == Checkout("head", repo, git(repo, "rev-parse", "HEAD"), False, "", "worktree", "working tree")
    (repo / "mylib.py").write_text("VERSION = 3\n")
    changed = check_out(spec, repo, scratch)
    assert (changed.sha, changed.dirty) == (clean.sha, True)
    (repo / "new.py").write_text("")
    added = check_out(spec, repo, scratch)
    (repo / "build" / "ignored.o").write_text("y")
    assert check_out(spec, repo, scratch) == added
    (repo / "mylib.py").unlink()
    deleted = check_out(spec, repo, scratch)
    assert len({changed.tree, added.tree, deleted.tree, ""}) == 4
    assert all(len(found.tree) == 64 for found in (changed, added, deleted))


def test_what_the_run_writes_does_not_count(repo: Path) -> None:
    inside = repo / "work"
    inside.mkdir()
    results = repo / "results.jsonl"
    for path in (results, inside / "file"):
        path.write_text("x")
    assert check_out(SideSpec("head", None), repo, inside).dirty
    assert not check_out(SideSpec("head", None), repo, inside, exclude=[results]).dirty


def test_repository_without_a_commit_is_dirty(tmp_path: Path, scratch: Path) -> None:
    root = new_repository(tmp_path / "fresh")
    (root / "a").write_text("a")
    found = check_out(SideSpec("head", None), root, scratch)
    assert (found.sha, found.dirty, found.tree) == ("", True, tree_hash(root))


def test_plain_directory(tmp_path: Path, scratch: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "sub").mkdir(parents=True)
    (plain / "sub" / "a.py").write_text("a")
    first = check_out(SideSpec("base", str(plain)), plain, scratch)
    assert (first.kind, first.sha, first.dirty, first.root) == ("directory", "", False, plain)
    named = check_out(SideSpec("base", str(plain), sha=UNKNOWN_SHA), plain, scratch)
    assert (named.sha, named.tree) == (UNKNOWN_SHA, first.tree)
    (plain / "sub" / "a.py").chmod(0o755)
    assert check_out(SideSpec("base", str(plain)), plain, scratch).tree != first.tree


def test_folder_that_an_outer_repository_ignores_is_a_plain_directory(repo: Path, scratch: Path) -> None:
    folder = repo / "build" / "old"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("a")
    found = check_out(SideSpec("base", str(folder)), repo, scratch)
    assert (found.kind, found.sha, found.root) == ("directory", "", folder)
    assert tree_files(folder) == ["a.py"]


@pytest.mark.parametrize("target", ["first", None])
def test_a_named_commit_must_be_the_one_found(repo: Path, scratch: Path, target: str | None) -> None:
    before = state(repo)
    with pytest.raises(UsageError, match=f"not {UNKNOWN_SHA}"):
        check_out(SideSpec("base", target, sha=UNKNOWN_SHA), repo, scratch)
    assert state(repo) == before
    right = git(repo, "rev-parse", target or "HEAD")
    found = check_out(SideSpec("base", target, sha=right), repo, scratch)
    assert found.sha == right
    sides.release(found, repo)


# ------------------------------------------------------------------------------------------------- files: hash and copy

names = st.text(alphabet="abcXYZ .-é", min_size=1, max_size=6).filter(lambda name: name.strip(".") == name)
trees = st.dictionaries(names, st.binary(max_size=20), max_size=5)


@given(trees, trees)
def test_hashes_agree_exactly_when_the_files_do(
    tmp_path_factory: pytest.TempPathFactory, one: dict[str, bytes], other: dict[str, bytes]
) -> None:
    hashes = []
    for files in (one, other):
        root = tmp_path_factory.mktemp("tree")
        for name, data in files.items():
            (root / name).write_bytes(data)
        copy_tree(root, root.parent / f"{root.name}-copy")
        assert tree_hash(root.parent / f"{root.name}-copy") == tree_hash(root)
        hashes.append(tree_hash(root))
    assert (hashes[0] == hashes[1]) == (one == other)


def test_copy_keeps_links_modes_and_empty_folders_and_drops_git(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o750)
    (source / "link").symlink_to("run.sh")
    (source / "dangling").symlink_to("/nowhere/at/all")
    (source / "folder-link").symlink_to("empty")
    os.mkfifo(source / "pipe")
    (source / "inner" / ".git").mkdir(parents=True)
    (source / "inner" / ".git" / "config").write_text("x")
    target = tmp_path / "deep" / "target"
    copy_tree(source, target)
    assert sorted(path.name for path in target.rglob("*")) == [
        "dangling", "empty", "folder-link", "inner", "link", "run.sh",
    ]  # fmt: skip
    assert (target / "run.sh").stat().st_mode & 0o777 == 0o750
    assert {name: str((target / name).readlink()) for name in ("link", "dangling", "folder-link")} == {
        "link": "run.sh",
        "dangling": "/nowhere/at/all",
        "folder-link": "empty",
    }


def test_copy_of_a_repository_takes_tracked_and_unignored_files(
    repo: Path, tmp_path: Path, local_submodules: None
) -> None:
    inner = new_repository(tmp_path / "inner")
    commit(inner, **{"sub.py": "S = 1\n"})
    git(repo, "submodule", "--quiet", "add", str(inner), "vendor/inner")
    commit(repo, **{"weird\nname ü": "x", "gone.py": ""})
    (repo / "gone.py").unlink()
    (repo / "untracked.py").write_text("")
    (repo / "vendor" / "inner" / "untracked-too.py").write_text("")
    (repo / "build").mkdir()
    (repo / "build" / "ignored.o").write_text("")
    copy_tree(repo, tmp_path / "copy")
    files = sorted(
        str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()
    )
    assert files == [
        ".gitignore", ".gitmodules", "mylib.py", "untracked.py",
        "vendor/inner/sub.py", "vendor/inner/untracked-too.py", "weird\nname ü",
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------- submodules, LFS, hostile settings


def test_submodules_come_along_and_the_users_configuration_stays(
    repo: Path, tmp_path: Path, scratch: Path, local_submodules: None
) -> None:
    deep = new_repository(tmp_path / "deep")
    commit(deep, **{"deep.py": "D = 1\n"})
    inner = new_repository(tmp_path / "inner")
    git(inner, "submodule", "--quiet", "add", str(deep), "deep")
    commit(inner, **{"sub.py": "S = 1\n"})
    git(repo, "submodule", "--quiet", "add", str(inner), "vendor/inner")
    commit(repo)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repo), str(clone))  # its submodules are not initialised
    before = state(clone)
    with Sides(clone, scratch) as run:
        found = run.check_out(SideSpec("base", "main"))
        assert (found.root / "vendor" / "inner" / "sub.py").read_text() == "S = 1\n"
        assert (found.root / "vendor" / "inner" / "deep" / "deep.py").read_text() == "D = 1\n"
    assert state(clone) == before
    assert list(scratch.iterdir()) == []


def test_submodule_address_is_no_command(repo: Path, tmp_path: Path, scratch: Path, local_submodules: None) -> None:
    inner = new_repository(tmp_path / "inner")
    commit(inner)
    git(repo, "submodule", "--quiet", "add", str(inner), "inner")
    text = (repo / ".gitmodules").read_text().replace(str(inner), f"ext::sh -c touch% {tmp_path}/ran")
    commit(repo, **{".gitmodules": text})
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(repo), str(clone))
    before = state(clone)
    with pytest.raises(UsageError, match="submodule"):
        check_out(SideSpec("base", "main"), clone, scratch)
    assert not (tmp_path / "ran").exists()
    assert state(clone) == before


@pytest.mark.parametrize("where", ["post-checkout", "core.fsmonitor"])
def test_no_hook_runs(repo: Path, tmp_path: Path, scratch: Path, where: str) -> None:
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    if where == "core.fsmonitor":
        git(repo, "config", where, str(hook))
    git(repo, "worktree", "add", "--quiet", str(tmp_path / "proof"), "--detach")
    git(repo, "-C", str(tmp_path / "proof"), "status")
    assert (tmp_path / "ran").exists()  # git itself does run it
    (tmp_path / "ran").unlink()
    check_out(SideSpec("head", None), repo, scratch)
    sides.release(check_out(SideSpec("base", "first"), repo, scratch), repo)
    assert not (tmp_path / "ran").exists()


def test_variables_of_a_calling_hook_are_not_obeyed(
    repo: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = git(repo, "rev-parse", "HEAD")
    other = new_repository(tmp_path / "other")
    commit(other, **{"mylib.py": "VERSION = 99\n"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    assert check_out(SideSpec("head", None), repo, scratch).sha == right
    found = check_out(SideSpec("base", "main"), repo, scratch)
    assert (found.root / "mylib.py").read_text() == "VERSION = 2\n"
    sides.release(found, repo)


def use_large_files(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lfs: bool) -> None:
    """A PATH of git alone, or of git and a git-lfs that fills in `weights.bin`."""
    commit(repo, **{"data/.gitattributes": "*.bin filter=lfs\n", "data/weights.bin": "pointer\n"})
    folder = tmp_path / "bin"
    folder.mkdir()
    real = subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip()
    for name in ("git", "sh"):
        (folder / name).symlink_to(next(Path(p, name) for p in os.get_exec_path() if Path(p, name).exists()))
    if lfs:
        (folder / "git-lfs").write_text(
            '#!/bin/sh\n[ "$1" = pull ] && [ -e data ] && echo content > data/weights.bin\n'
        )
        (folder / "git-lfs").chmod(0o755)
    tools = [path for path in ("/usr/bin", "/bin") if not Path(path, "git-lfs").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder), *tools, real]))


def test_large_files_are_fetched(repo: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_large_files(repo, tmp_path, monkeypatch, lfs=True)
    found = check_out(SideSpec("base", "main"), repo, scratch)
    assert (found.root / "data" / "weights.bin").read_text() == "content\n"
    sides.release(found, repo)


def test_large_files_without_git_lfs_are_refused(
    repo: Path, tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_large_files(repo, tmp_path, monkeypatch, lfs=False)
    before = state(repo)
    with pytest.raises(UsageError) as raised:
        check_out(SideSpec("base", "main"), repo, scratch)
    assert raised.value.hint == "install git-lfs"
    assert state(repo) == before
    assert list(scratch.iterdir()) == []


# --------------------------------------------------------------------------------------------------------- what is left


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_behind(repo: Path, scratch: Path, error: type[BaseException]) -> None:
    before = state(repo)
    with pytest.raises(error), Sides(repo, scratch) as run:  # noqa: PT012 - what is raised inside is the point
        wanted: list[tuple[SideName, str]] = [("base", "first"), ("head", "main"), ("control", "first")]
        for name, target in wanted:
            found = run.check_out(SideSpec(name, target))
            (found.root / "locked").mkdir()
            (found.root / "locked" / "file").write_text("x")
            (found.root / "locked").chmod(0o500)
        raise error
    assert state(repo) == before
    assert list(scratch.iterdir()) == []


def test_interrupted_checkout_leaves_nothing(repo: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(root: Path) -> None:
        assert (root / "mylib.py").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(checkouts, "_fetch_submodules", interrupt)
    before = state(repo)
    with pytest.raises(KeyboardInterrupt):
        check_out(SideSpec("base", "first"), repo, scratch)
    assert state(repo) == before
    assert list(scratch.iterdir()) == []


def test_worktrees_of_killed_runs_are_removed_and_no_others(repo: Path, tmp_path: Path, scratch: Path) -> None:
    mine = owned_prefix()
    dead = mine.replace(f"-{os.getpid()}-", f"-{dead_pid()}-")
    elsewhere = f"evenbench-{dead_pid()}-{'0' * 8}-"  # another machine's process: its number says nothing here
    keep = [tmp_path / "user-tree", scratch / f"{mine}a" / "base", scratch / f"{elsewhere}b"]
    stale = [scratch / f"{dead}c" / f"{dead}d-base", tmp_path / f"{dead}e-base", scratch / f"{dead}gone"]
    for path in (*keep, *stale):
        git(repo, "worktree", "add", "--quiet", "--detach", str(path), "first")
    subprocess.run(["rm", "-r", str(stale[-1])], check=True)
    (scratch / f"{dead}f" / "env").mkdir(parents=True)
    (scratch / f"{dead}link").symlink_to(tmp_path / "user-tree")
    with Sides(repo, scratch):
        pass
    listed = [line.split(" ", 1)[1] for line in state(repo)[0].splitlines() if line.startswith("worktree ")]
    assert sorted(listed) == sorted(map(str, [repo, *keep]))
    assert (tmp_path / "user-tree" / "mylib.py").exists()
    assert sorted(path.name for path in scratch.iterdir() if not path.is_symlink()) == sorted(
        [f"{mine}a", f"{elsewhere}b"]
    )
    prune_stale(repo, scratch)  # again: nothing to do, nothing raised


def test_next_run_clears_up_after_a_killed_one(repo: Path, scratch: Path) -> None:
    before = state(repo)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom evenbench.runner.sides import Sides, SideSpec\n"
        "with Sides(Path(sys.argv[1]), Path(sys.argv[2])) as run:\n"
        "    run.check_out(SideSpec('base', 'first'))\n    print('ready', flush=True)\n    time.sleep(600)"
    )
    root = Path(evenbench.__file__).resolve().parents[1]
    command = [sys.executable, "-c", code, str(repo), str(scratch)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with Sides(repo, scratch):
            assert len(state(repo)[0].split("\n\n")) == 2  # it lives: its worktree stays
        process.kill()
    with Sides(repo, scratch):
        assert state(repo) == before
    assert list(scratch.iterdir()) == []


def test_two_runs_on_one_repository_do_not_disturb_each_other(repo: Path, scratch: Path) -> None:
    with Sides(repo, scratch) as one:
        first = one.check_out(SideSpec("base", "first"))
        with Sides(repo, scratch) as two:
            second = two.check_out(SideSpec("base", "first"))
            assert first.root != second.root
        assert first.root.exists()
        assert not second.root.exists()


def test_use_outside_the_block_is_refused(repo: Path) -> None:
    with pytest.raises(RuntimeError, match="outside"):
        Sides(repo).check_out(SideSpec("base", "first"))


# ------------------------------------------------------------------------------------------------------------ suites.yaml


def at(root: Path, name: SideName = "base") -> Checkout:
    return Checkout(name, root, "", False, "", "directory", str(root))


def test_suites_file_of_a_side(tmp_path: Path) -> None:
    assert side_config_text(at(tmp_path), "cases") is None
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "suites.yaml").write_text("version: 1  # ü\n", encoding="utf-8")
    assert side_config_text(at(tmp_path), Path("cases")) == "version: 1  # ü\n"


def link_outside(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def dangle(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (link_outside, "not a file inside"),
        (dangle, "not a file inside"),
        (os.mkfifo, "not a file inside"),
        (Path.mkdir, "not a file inside"),
        (lambda path: path.write_bytes(b"a: \xff"), "not UTF-8 (byte 3)"),
        (lambda path: path.write_bytes(b"#" * (SUITES_MAX + 1)), "larger than"),
    ],
)
def test_odd_suites_files_are_refused(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    make(tmp_path / "suites.yaml")
    with pytest.raises(ConfigError) as raised:
        side_config_text(at(tmp_path), ".")
    assert message in str(raised.value)
    assert "base: suites.yaml" in str(raised.value)


# ---------------------------------------------------------------------------------------------------------------- prepare


def python_says(side: Side, code: str) -> str:
    """What a launch of the side would print: safe-path mode, the side's root first."""
    done = subprocess.run(
        [str(side.python), "-P", "-c", f"import sys; sys.path.insert(0, {str(side.root)!r})\n{code}"],
        cwd=side.root, env=dict(side.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.fixture
def run(repo: Path, scratch: Path) -> Iterator[Sides]:
    with Sides(repo, scratch) as opened:
        yield opened


def test_two_refs_load_their_own_library(run: Sides, repo: Path) -> None:
    said = []
    wanted: list[tuple[SideName, str | None]] = [("base", "first"), ("head", None)]
    for name, target in wanted:
        spec = SideSpec(name, target)
        side = run.prepare(run.check_out(spec), spec, "")
        said.append(python_says(side, "import mylib, numpy; print(mylib.VERSION, numpy.__name__, sys.prefix)"))
        assert side.root == side.checkout.root
    assert said[0].startswith("1 numpy ")
    assert said[1] == f"2 numpy {run.folder / 'head' / 'env'}"
    assert git(repo, "status", "--porcelain") == ""  # no __pycache__ either


def test_setup_runs_in_a_copy_with_its_own_pip(run: Sides, repo: Path) -> None:
    setup = 'touch made-by-setup && command -v pip > found && command -v python >> found && pip --version >> found && echo "$VIRTUAL_ENV" >> found'
    (repo / "build").mkdir()
    (repo / "build" / "ignored.o").write_text("")
    lines: list[str] = []
    spec = SideSpec("head", None)
    side = prepare(run.check_out(spec), spec, setup, run.folder, log=lines.append)
    assert lines == [f"head: set-up: {setup}"]
    assert not (repo / "made-by-setup").exists()
    assert (side.root / "made-by-setup").exists()
    assert side.root == run.folder / "head" / "tree"
    assert not (side.root / "build").exists()
    pip, python, version, prefix = (side.root / "found").read_text().splitlines()
    environment = run.folder / "head" / "env"
    assert (pip, python, prefix) == (f"{environment}/bin/pip", f"{environment}/bin/python", str(environment))
    assert version.startswith("pip ")


def test_setup_of_a_ref_runs_in_its_worktree(run: Sides) -> None:
    spec = SideSpec("base", "first", setup="touch made")
    checkout = run.check_out(spec)
    side = run.prepare(checkout, spec, "exit 1")  # the side's own goes before the general one
    assert side.root == checkout.root
    assert (checkout.root / "made").exists()


def test_installing_a_package_puts_one_copy_into_each_side(run: Sides, repo: Path) -> None:
    project = '[project]\nname = "mylib"\nversion = "1"\n[build-system]\nrequires = ["setuptools"]\n'
    project += 'build-backend = "setuptools.build_meta"\n[tool.setuptools]\npackage-dir = {"" = "src"}\npy-modules = ["newlib"]\n'
    both = []
    wanted: list[tuple[SideName, int]] = [("base", 1), ("head", 2)]
    for name, value in wanted:
        commit(repo, **{"pyproject.toml": project, "src/newlib.py": f"VALUE = {value}\n"})
        spec = SideSpec(name, "HEAD")
        both.append(run.prepare(run.check_out(spec), spec, "pip install --no-deps --no-build-isolation --no-index ."))
    said = [python_says(side, "import newlib; print(newlib.VALUE, newlib.__file__)").split() for side in both]
    assert [value for value, _ in said] == ["1", "2"]
    for side, (_, file) in zip(both, said, strict=True):
        assert Path(file).is_relative_to(run.folder / side.name / "env")


def test_failing_setup_ends_the_run_with_its_last_words(run: Sides) -> None:
    spec = SideSpec("base", "first")
    lines: list[str] = []
    noise = "seq 1 30000; printf '\\033[31m##[add-mask]x\\n::add-mask::y\\n'; echo no compiler >&2; exit 7"
    with pytest.raises(NothingMeasured) as raised:
        prepare(run.check_out(spec), spec, noise, run.folder, log=lines.append)
    assert raised.value.message == (
        "set-up of base failed with exit status 7: 29999 | 30000 |  [31m#[add-mask]x | ::add-mask::y | no compiler"
    )
    assert raised.value.exit_code == 4
    assert lines[-1] == "base | no compiler"
    assert all(line.startswith(("base | ", "base: ")) for line in lines)
    assert sum(map(len, lines)) < 200_000


def test_given_interpreter_is_used_as_it_is(run: Sides) -> None:
    spec = SideSpec("base", "first", python=sys.executable)
    side = run.prepare(run.check_out(spec), spec, "exit 1")  # suites.yaml's set-up is not for it
    assert side.python == Path(sys.executable)
    assert python_says(side, "import mylib; print(mylib.VERSION, sys.prefix)") == f"1 {sys.prefix}"
    own = SideSpec("head", "main", python=sys.executable, setup="command -v python > found")
    side = run.prepare(run.check_out(own), own, "exit 1")
    assert (side.root / "found").read_text() == f"{Path(sys.executable).parent / 'python'}\n"


# --------------------------------------------------------------------------------------------------------------- preload


def bare_side(name: SideName, root: Path, **variables: str) -> Side:
    return Side(name, at(root, name), root, Path(sys.executable), {"PATH": os.environ["PATH"], **variables}, root)


def two_sides(tmp_path: Path, **files: str) -> tuple[Side, Side]:
    """Both roots hold `files`; a third folder, which both have on PYTHONPATH, holds `common.py`."""
    common = tmp_path / "common"
    common.mkdir()
    (common / "common.py").write_text("")
    for name in ("base", "head"):
        for file, text in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / name).mkdir(exist_ok=True)
    made = [bare_side(name, tmp_path / name, PYTHONPATH=str(common)) for name in ("base", "head")]
    return made[0], made[1]


def test_modules_that_each_side_has_are_fine(tmp_path: Path) -> None:
    files = {"mylib/__init__.py": "print('noise')", "mylib/fast.py": "", "space/a.py": ""}
    for side in two_sides(tmp_path, **files):
        check_preload(["mylib", "mylib.fast", "space", "sys", "common"], side)


def test_missing_module_names_the_side(tmp_path: Path) -> None:
    base, head = two_sides(tmp_path, **{"mylib.py": ""})
    (head.root / "mylib.py").unlink()
    check_preload(["mylib"], base)
    with pytest.raises(ConfigError, match="preload: head has no module mylib"):
        check_preload(["mylib"], head)
    with pytest.raises(ConfigError, match="base has no module absent.part"):
        check_preload(["absent.part"], base)


def test_package_that_cannot_be_imported_is_reported(tmp_path: Path) -> None:
    base, _ = two_sides(tmp_path, **{"mylib/__init__.py": "raise OSError('no device')"})
    with pytest.raises(ConfigError, match="base cannot look for mylib.fast: OSError: no device"):
        check_preload(["mylib.fast"], base)


def test_nothing_to_preload_starts_nothing(tmp_path: Path) -> None:
    check_preload([], Side("base", at(tmp_path), tmp_path, tmp_path / "no-python", {}, tmp_path))


# ------------------------------------------------------------------------------------------- a repository of its own


ASKS = (
    "git describe --tags --long --dirty > ../answer; git rev-parse HEAD >> ../answer; git status --porcelain >> ../answer;"
    " git remote >> ../answer"
)


def answers(run: Sides, spec: SideSpec, setup: str = ASKS) -> tuple[Side, list[str]]:
    side = run.prepare(run.check_out(spec), spec, setup)
    return side, (side.root.parent / "answer").read_text().splitlines()


@pytest.fixture
def released(repo: Path) -> str:
    """A release, two commits before HEAD; returns the id of HEAD."""
    git(repo, "tag", "v1.2")
    git(repo, "tag", "nightly")
    commit(repo, **{"mylib.py": "VERSION = 5\n"})
    return commit(repo, **{"mylib.py": "VERSION = 6\n"})


@pytest.mark.parametrize("target", ["HEAD", ".", None])
def test_a_set_up_may_ask_git_for_a_version(
    run: Sides, repo: Path, released: str, target: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo)
    before = state(repo)[1:]
    _, lines = answers(run, SideSpec("base", target))
    assert lines == [f"v1.2-2-g{released[:7]}", released]
    assert state(repo)[1:] == before


def test_a_dirty_tree_answers_as_one(run: Sides, repo: Path, released: str) -> None:
    (repo / "mylib.py").write_text("VERSION = 7\n")
    (repo / "new.py").write_text("")
    _, lines = answers(run, SideSpec("head", None))
    assert lines == [f"v1.2-2-g{released[:7]}-dirty", released, " M mylib.py", "?? new.py"]


@pytest.mark.parametrize("target", ["HEAD", None])
def test_what_a_set_up_writes_stays_in_its_side(run: Sides, repo: Path, released: str, target: str | None) -> None:
    before = (state(repo)[1:], git(repo, "for-each-ref"))
    writes = (
        "git tag made && git branch made && git config user.name x && git update-index --assume-unchanged mylib.py"
        " && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && touch ../answer"
    )
    side, _ = answers(run, SideSpec("base", target), writes)
    assert (state(repo)[1:], git(repo, "for-each-ref")) == before
    assert (side.root / ".git").is_dir()
    assert git(side.root, "config", "core.hooksPath") == os.devnull


def test_without_a_tag_there_is_a_commit(run: Sides, repo: Path) -> None:
    _, lines = answers(run, SideSpec("base", "HEAD"), "git rev-list --count HEAD > ../answer; git tag >> ../answer")
    assert lines == ["1"]


def test_of_a_shallow_clone_what_there_is(run: Sides, repo: Path, released: str, tmp_path: Path) -> None:
    git(repo, "clone", "-q", "--depth=1", f"file://{repo}", str(tmp_path / "shallow"))
    _, lines = answers(run, SideSpec("base", str(tmp_path / "shallow")), "git rev-parse HEAD > ../answer")
    assert lines == [released]


def test_a_plain_directory_stays_one(run: Sides, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.py").write_text("")
    side, _ = answers(run, SideSpec("base", str(tmp_path / "plain")), "touch ../answer")
    assert not (side.root / ".git").exists()


def test_no_worktree_is_left_in_the_users_repository(repo: Path, scratch: Path) -> None:
    with Sides(repo, scratch) as sides:
        spec = SideSpec("base", "HEAD")
        sides.prepare(sides.check_out(spec), spec, "true")
        assert git(repo, "worktree", "list").count("\n") == 1
    assert "\n" not in git(repo, "worktree", "list")
    assert not list((repo / ".git/worktrees").glob("*"))


# --------------------------------------------------------------------------------- exactly one commit, and names of two


def test_a_clean_tree_that_holds_more_than_its_commit_is_not_exact(repo: Path, scratch: Path) -> None:
    assert check_out(SideSpec("base", "HEAD"), repo, scratch).exact
    assert check_out(SideSpec("head", None), repo, scratch).exact
    (repo / "build").mkdir()
    (repo / "build/tuned.json").write_text("{}")
    tuned = check_out(SideSpec("head", None), repo, scratch)
    assert (tuned.dirty, tuned.exact) == (False, False)
    assert check_out(SideSpec("head", None), repo, scratch, exclude=[repo / "build"]).exact


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_neither_is_one_with_files_that_git_was_told_to_skip(repo: Path, scratch: Path, flag: str) -> None:
    git(repo, "update-index", flag, "mylib.py")
    (repo / "mylib.py").write_text("VERSION = 99\n")
    hidden = check_out(SideSpec("head", None), repo, scratch)
    assert (hidden.dirty, hidden.exact) == (False, False)


def test_a_name_of_two_commits_is_shown_with_both(repo: Path, scratch: Path) -> None:
    old = git(repo, "rev-parse", "HEAD")
    new = commit(repo, **{"mylib.py": "VERSION = 5\n"})
    git(repo, "tag", "main", old)
    git(repo, "tag", "same", new)
    git(repo, "branch", "same", new)
    assert check_out(SideSpec("base", "main"), repo, scratch).label == f"main: the tag; the branch is {new[:7]}"
    assert check_out(SideSpec("base", "heads/main"), repo, scratch).label == "heads/main"
    assert check_out(SideSpec("base", "same"), repo, scratch).label == "same"
    git(repo, "branch", new[:7], old)
    assert (
        check_out(SideSpec("head", new[:7]), repo, scratch).label == f"{new[:7]}: the branch; the commit is {new[:7]}"
    )
