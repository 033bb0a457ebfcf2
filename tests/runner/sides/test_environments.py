from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import evenbench
from evenbench.runner.errors import NothingMeasured, UsageError
from evenbench.runner.process.bounded import readable, run_bounded
from evenbench.runner.sides import environments
from evenbench.runner.sides.environments import (
    CACHES,
    PTH_FILE,
    UV_REDIRECTS,
    cause_of,
    given_python,
    installed_names,
    make_environment,
    pip_settings,
    refuse_changed_packages,
    refuse_uv_redirects,
    run_setup,
    shared_paths,
    side_variables,
)

OWN_ROOT = Path(evenbench.__file__).resolve().parents[1]
SITE = Path(sysconfig.get_path("purelib"))


def run_python(python: Path, code: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = side_variables({"PATH": os.environ["PATH"], **variables}, python, cwd / "cache")
    return subprocess.run(
        [str(python), "-P", "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def ignore(line: str) -> None:
    pass


# ----------------------------------------------------------------------------------------------------------- the path


def test_packages_are_seen_and_evenbench_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OWN_ROOT)
    environ = {"PYTHONPATH": os.pathsep.join([str(OWN_ROOT), "", "."])}
    python = make_environment(tmp_path / "env", shared_paths(environ, tmp_path, tmp_path), with_pip=False)
    done = run_python(python, "import numpy, sys; print(numpy.__file__); print(*sys.path, sep='\\n')", tmp_path)
    assert done.stderr == ""
    file, *path = done.stdout.splitlines()
    assert Path(file).is_relative_to(SITE)
    assert str(OWN_ROOT) not in path
    for name in ("runner", "reports", "evenbench"):
        assert f"No module named '{name}'" in run_python(python, f"import {name}", tmp_path).stderr


def test_no_editable_install_of_ours_leaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "part" / "inner").mkdir(parents=True)
    (site / "part" / "inner" / "bundled.py").write_text("")
    (site / "package.py").write_text("")
    (site / "__editable__.evenbench.pth").write_text(f"{OWN_ROOT}\n")  # how a flat editable install looks
    (site / "__editable___finder.pth").write_text(f"import sys; sys.path.append({str(OWN_ROOT)!r})\n")
    (site / "bundle.pth").write_text("# a comment\n\npart/inner\npart/missing\n../outside\n.\n" + "x" * 5000 + "\n")
    (tmp_path / "outside").mkdir()
    monkeypatch.setattr("site.getsitepackages", lambda: [str(site)])
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    paths = shared_paths({}, tmp_path, tmp_path)
    assert paths == [site, site / "part" / "inner"]
    python = make_environment(tmp_path / "env", paths, with_pip=False)
    assert run_python(python, "import package, bundled", tmp_path).returncode == 0
    assert "No module named 'runner'" in run_python(python, "import runner", tmp_path).stderr


def test_user_site_counts_where_python_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("site.getsitepackages", lambda: ["/s"])
    monkeypatch.setattr("site.getusersitepackages", lambda: "/u")
    for enabled, expected in ((True, ["/s", "/u"]), (False, ["/s"]), (None, ["/s"])):
        monkeypatch.setattr("site.ENABLE_USER_SITE", enabled)
        assert list(map(str, shared_paths({}, tmp_path, tmp_path))) == expected


def test_pythonpath_inside_the_repository_becomes_the_sides_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, root = tmp_path / "repo", tmp_path / "worktree"
    (repo / "src").mkdir(parents=True)
    monkeypatch.chdir(repo)
    monkeypatch.setattr("site.getsitepackages", list)
    monkeypatch.setattr("site.ENABLE_USER_SITE", False)
    entries = ["src", str(repo), "/opt/lib", str(repo / "src"), str(tmp_path / "repository")]
    paths = shared_paths({"PYTHONPATH": os.pathsep.join(entries)}, repo, root)
    assert paths == [root / "src", root, Path("/opt/lib"), tmp_path / "repository"]


def test_what_setup_installs_goes_before_our_packages(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "twice.py").write_text("WHO = 'ours'\n")
    python = make_environment(tmp_path / "env", [ours], with_pip=False)
    assert run_python(python, "import twice; print(twice.WHO)", tmp_path).stdout == "ours\n"
    (next((tmp_path / "env").rglob(PTH_FILE)).parent / "twice.py").write_text("WHO = 'side'\n")
    assert run_python(python, "import twice; print(twice.WHO)", tmp_path).stdout == "side\n"


# ---------------------------------------------------------------------------------------------------------------- pip


def test_pip_installs_into_the_environment_in_spite_of_spaces(tmp_path: Path) -> None:
    folder = tmp_path / "with space 'n quote" / "env"
    python = make_environment(folder, shared_paths({}, tmp_path, tmp_path), with_pip=True)
    (tmp_path / "pip.py").write_text("raise SystemExit('the pip of the tree')\n")
    for name in ("pip", "pip3"):
        variables = side_variables({"PATH": "/nowhere"}, python, tmp_path / "cache")
        done = subprocess.run(
            [str(folder / "bin" / name), "--version"], cwd=tmp_path, env=variables,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout.startswith("pip "), done.stderr
    prefix = run_python(python, "import sysconfig; print(sysconfig.get_path('purelib'))", tmp_path).stdout.strip()
    assert Path(prefix).is_relative_to(folder)


def test_without_a_pip_of_ours_ensurepip_gives_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(environments, "run_bounded", lambda argv, **_: asked.append(list(argv)))
    python = make_environment(tmp_path / "env", [], with_pip=True)
    assert asked == [[str(python), "-I", "-m", "ensurepip"]]
    done = subprocess.run([str(python.with_name("pip"))], capture_output=True, text=True, check=False)
    assert done.returncode == 1  # never the next one on PATH
    assert "No module named pip" in done.stderr


# ---------------------------------------------------------------------------------------------------------- variables


def test_variables_lose_secrets_and_what_redirects_python(tmp_path: Path) -> None:
    kept = {
        "HOME": "/h", "LD_LIBRARY_PATH": "/cuda/lib", "CUDA_HOME": "/cuda", "TOKENIZERS_PARALLELISM": "false",
        "MONKEY": "1", "PATHOLOGY": "1", "PIP_INDEX_URL": "https://index", "RUNNER_TRACKING_ID": "t",
        "GIT_SSL_CAINFO": "/ca", "PYTHONWARNINGS": "error",
    }  # fmt: skip
    lost = [
        "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONSAFEPATH", "VIRTUAL_ENV", "PIP_TARGET",
        "GITHUB_TOKEN", "GITHUB_ENV", "ACTIONS_RUNTIME_URL", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD", "wandb_api_key", "TOKEN", "INPUT_GITHUB-TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "GH_PAT",
        "GIT_DIR", "GIT_INDEX_FILE", "SYSTEM_ACCESSTOKEN", "PGPASSWORD", "NPM_TOKEN", "SIGNING_KEY", "KEY",
    ]  # fmt: skip
    tokens = {
        "FRIEND": "ghs_" + "A1b2" * 9,
        "INDEX": "https://me:ghp_" + "A1b2" * 9 + "@host",
        "P": "github_pat_" + "1" * 20,
    }
    environ = {"PATH": "/usr/bin", **kept, **tokens, **dict.fromkeys(lost, "x")}
    python = tmp_path / "bin" / "python"
    found = side_variables({**environ, "PIP_CONFIG_FILE": os.devnull}, python, tmp_path / "cache")
    caches = {name: str(tmp_path / "cache" / folder) for name, folder in CACHES.items()}
    assert found == {
        **kept, **caches, "PATH": f"{python.parent}{os.pathsep}/usr/bin", "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1", "PIP_CONFIG_FILE": os.devnull, "UV_PROJECT_ENVIRONMENT": str(tmp_path),
    }  # fmt: skip
    assert all(Path(folder).is_dir() for folder in caches.values())
    assert len(set(caches.values())) == len(caches)


def settings_file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_settings_of_pips_files_are_kept_but_for_redirects(tmp_path: Path) -> None:
    settings_file(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = https://low\nproxy = http://p\ntarget = /x\n")
    settings_file(tmp_path / "home/.pip/pip.conf", "[global]\nindex_url = https://middle\nno-index = \nroot = /r\n")
    own = settings_file(
        tmp_path / "own.conf",
        "[install]\nfind-links =\n  /a\n  /b\nuser = true\nprefix = /p\n[wheel]\nbuild = /no\n[global]\nrequire-virtualenv = 1\n",
    )
    environ = {
        "HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), "XDG_CONFIG_HOME": str(tmp_path),
        "PIP_CONFIG_FILE": str(own),
    }  # fmt: skip
    found = pip_settings(environ)
    assert {name: found[name] for name in ("PIP_INDEX_URL", "PIP_PROXY", "PIP_FIND_LINKS")} == {
        "PIP_INDEX_URL": "https://middle", "PIP_PROXY": "http://p", "PIP_FIND_LINKS": "\n/a\n/b",
    }  # fmt: skip
    lost = ("TARGET", "ROOT", "USER", "PREFIX", "REQUIRE_VIRTUALENV", "BUILD", "NO_INDEX")
    assert not [name for name in lost if f"PIP_{name}" in found]


@pytest.mark.parametrize("text", ["[global\n", "no section = 1\n", "[global]\nindex-url\n", "\x00"])
def test_a_file_that_pip_could_not_read_either_is_left_out(tmp_path: Path, text: str) -> None:
    own = settings_file(tmp_path / "own.conf", text)
    assert "PIP_INDEX_URL" not in pip_settings(
        {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": str(own)}
    )


@pytest.mark.parametrize("key", sorted(UV_REDIRECTS))
@pytest.mark.parametrize("file", ["home/.config/uv/uv.toml", "tree/uv.toml", "tree/pyproject.toml"])
def test_a_redirect_of_uv_is_refused_by_name(tmp_path: Path, file: str, key: str) -> None:
    table = "[tool.uv.pip]" if file.endswith("pyproject.toml") else "[pip]"
    path = settings_file(tmp_path / file, f'{table}\n{key} = "x"\n')
    (tmp_path / "tree").mkdir(exist_ok=True)
    environ = {"HOME": str(tmp_path / "home")}
    with pytest.raises(UsageError) as refused:
        refuse_uv_redirects(environ, tmp_path / "tree", "uv pip install .")
    assert refused.value.message.startswith(f"{path} sets pip.{key}, so uv would install past")
    refuse_uv_redirects(environ, tmp_path / "tree", "pip install .")  # which does not read it


def test_an_index_for_uv_is_fine(tmp_path: Path) -> None:
    settings_file(tmp_path / "uv.toml", '[pip]\nindex-url = "https://i"\n')
    settings_file(tmp_path / "pyproject.toml", 'tool = "x"\n')
    refuse_uv_redirects({"HOME": str(tmp_path)}, tmp_path, "uv pip install .")


def test_an_environment_is_active(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env", [], with_pip=False)
    assert side_variables({"VIRTUAL_ENV": "/other"}, python, tmp_path)["VIRTUAL_ENV"] == str(tmp_path / "env")


def test_nothing_is_written_beside_the_users_modules(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env", [], with_pip=False)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "mine.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tree)!r}); import mine"
    done = run_python(python, code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tree.iterdir()] == ["mine.py"]


# --------------------------------------------------------------------------------------------------- a given interpreter


def script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_interpreter_by_path_and_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "mypython"
    link.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for text in ("mypython", str(link), "./mypython", "~/mypython"):
        assert given_python("base", text) == link


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("#!/bin/sh\necho 3 10\n", 0o755, "is Python 3.10"),
        ("#!/bin/sh\necho 2 7\n", 0o755, "is Python 2.7"),
        ("#!/bin/sh\necho hello\n", 0o755, "is no Python interpreter"),
        ("#!/bin/sh\necho 3 12; exit 1\n", 0o755, "is no Python interpreter"),
        ("#!/nowhere/sh\n", 0o755, "cannot be run"),
        ("#!/bin/sh\n", 0o644, "no such interpreter"),
    ],
)
def test_unusable_interpreters_are_refused(tmp_path: Path, text: str, mode: int, message: str) -> None:
    path = script(tmp_path / "python", text, mode)
    with pytest.raises(UsageError) as raised:
        given_python("head", path)
    assert message in raised.value.message
    assert raised.value.message.startswith("head: ")


# --------------------------------------------------------------------------------------------------- set-up, processes


def test_setup_that_runs_too_long_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "SETUP_TIMEOUT_S", 0.5)
    command = f"echo started; (sleep 600; touch {tmp_path}/late) & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(NothingMeasured, match="set-up of head ran longer than 0 s: started"):
        run_setup("head", command, tmp_path, os.environ, log=ignore)
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_setup_ended_by_a_signal_says_so(tmp_path: Path) -> None:
    with pytest.raises(NothingMeasured, match="set-up of head was ended by signal 9: no output"):
        run_setup("head", "kill -9 $$", tmp_path, os.environ, log=ignore)


def test_setup_gets_no_input(tmp_path: Path) -> None:
    run_setup("head", "cat > got", tmp_path, os.environ, log=ignore)
    assert (tmp_path / "got").read_text() == ""


def is_gone(pid: int) -> bool:
    """Whether a process ends: killed ones may linger for a moment until they are reaped."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


def bounded(command: str, cwd: Path, *, timeout_s: float = 60, keep: int = 1000, merge: bool = False) -> object:
    done = run_bounded(
        ["sh", "-c", command], cwd=cwd, environment=os.environ, timeout_s=timeout_s, keep=keep, merge=merge
    )
    return done.status, done.output, done.errors, done.truncated


def test_streams_are_kept_apart_or_merged(tmp_path: Path) -> None:
    assert bounded("echo a; echo b >&2; exit 3", tmp_path) == (3, b"a\n", b"b\n", False)
    assert bounded("echo a; echo b >&2", tmp_path, merge=True) == (0, b"a\nb\n", b"", False)


def test_only_the_end_of_a_flood_is_kept(tmp_path: Path) -> None:
    assert bounded("yes | head -c 30000000; echo end", tmp_path, keep=6) == (0, b"y\nend\n"[-6:], b"", True)
    assert bounded("printf 123456", tmp_path, keep=6) == (0, b"123456", b"", False)


def test_a_process_left_behind_does_not_hold_the_run(tmp_path: Path) -> None:
    assert bounded(f"sleep 600 & echo $! > {tmp_path}/pid; echo done", tmp_path) == (0, b"done\n", b"", False)
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_closed_output_still_waits_for_the_end(tmp_path: Path) -> None:
    assert bounded("exec >&- 2>&-; sleep 0.3; exit 5", tmp_path) == (5, b"", b"", False)


def test_time_limit_allows_tidying_up(tmp_path: Path) -> None:
    command = "trap 'echo tidy > tidied; exit 1' TERM; echo go; while :; do sleep 0.05; done"
    assert bounded(command, tmp_path, timeout_s=0.5) == (None, b"go\n", b"", False)
    assert (tmp_path / "tidied").read_text() == "tidy\n"


def test_foreign_lines_cannot_command_a_terminal_or_log() -> None:
    assert readable(b"a\x1b[2Jb\n\n  \r##[add-mask]c\xff\n") == ["a [2Jb", "#[add-mask]c\ufffd"]


# ------------------------------------------------------------------------------------------ what both sides share


@pytest.mark.parametrize(
    ("deed", "changed"),
    [
        (lambda site: (site / "mylib/__pycache__").mkdir(), None),  # by the first import, of any process
        (lambda site: (site / "__pycache__").mkdir(), None),
        (lambda site: (site / "new").mkdir(), "new"),
        (lambda site: (site / "one.py").write_text("2"), "one.py"),
        (lambda site: (site / "one.py").unlink(), "one.py"),
        (lambda site: (site / "mylib-1.dist-info/RECORD").write_text(""), "mylib-1.dist-info"),
        (lambda site: (shutil.move(site / "mylib", site.parent), (site / "mylib").mkdir()), "mylib"),
    ],
)
def test_a_set_up_must_leave_shared_packages_alone(
    tmp_path: Path, deed: Callable[[Path], object], changed: str | None
) -> None:
    site = tmp_path / "site"
    for folder in ("mylib", "mylib-1.dist-info"):
        (site / folder).mkdir(parents=True)
    (site / "one.py").write_text("1")
    for path in site.rglob("*"):
        os.utime(path, (1, 1))
    before = installed_names([site, tmp_path / "absent"], tmp_path / "side")
    deed(site)
    after = installed_names([site, tmp_path / "absent"], tmp_path / "side")
    if changed is None:
        refuse_changed_packages("base", before, after)
        return
    with pytest.raises(NothingMeasured) as refused:
        refuse_changed_packages("base", before, after)
    assert refused.value.message == f"set-up of base changed what both sides share: {site / changed}"


# ------------------------------------------------------------------------------------------------ why a set-up failed

PIP_TAIL = [
    "note: This error originates from a subprocess, and is likely not a problem with pip.",
    "error: metadata-generation-failed",
    "× Encountered error while generating package metadata.",
    "╰─> See above for output.",
    "note: This is an issue with the package mentioned above, not pip.",
    "hint: See above for details.",
]


@pytest.mark.parametrize(
    ("before", "cause", "after"),
    [
        (
            ["  error: subprocess-exited-with-error", "  × Getting requirements to build wheel did not run successfully.",
             "  │ exit code: 1", "  ╰─> [22 lines of output]", "      Traceback (most recent call last):", '        File "x", line 3'],
            "LookupError: setuptools-scm was unable to detect version for /tmp/side/tree.",
            ["      [end of output]", *PIP_TAIL],
        ),
        (["building 'mylib._C' extension"], 'csrc/a.cu(12): error: identifier "foo" is undefined', ["1 error detected in the compilation", "error: command '/usr/bin/nvcc' failed with exit code 1", *PIP_TAIL]),
        (["cc -c a.c"], "a.c:3:5: error: expected ';' before 'return'", ["ninja: build stopped: subcommand failed.", "subprocess.CalledProcessError: Command '['ninja']' returned non-zero exit status 1."]),
        (["gcc -o x"], "a.c:1:10: fatal error: cuda.h: No such file or directory", ["compilation terminated.", "make: *** [Makefile:3: x] Error 1"]),
        (["-- Configuring"], "CMake Error at CMakeLists.txt:7 (find_package):", ["-- Configuring incomplete, errors occurred!"]),
        (["   Compiling mylib v0.1.0"], "error[E0425]: cannot find value `x` in this scope", ["error: could not compile `mylib` (lib) due to 1 previous error"]),
        ([], "/bin/sh: 1: nvccc: not found", []),
        (["Collecting nosuch"], "ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)", ["ERROR: No matching distribution found for nosuch"]),
        (["x" * 50], "OSError: [Errno 28] No space left on device", ["hint: See above for details."]),
        (["Traceback (most recent call last):", '  File "gen.py", line 1'], "ModuleNotFoundError: No module named 'jinja3'", []),
        (["  × No solution found when resolving dependencies:"], "error: Failed to fetch: `https://index/simple/x/`", []),
        (["nvcc -arch=sm_1"], "nvcc fatal   : Unsupported gpu architecture 'compute_1'", ["make: *** [all] Error 1"]),
    ],
)  # fmt: skip
def test_the_line_that_names_the_cause(before: list[str], cause: str, after: list[str]) -> None:
    assert cause_of([*before, f"      {cause}", *after]) == cause


@pytest.mark.parametrize("lines", [[], ["29999", "30000"], ["0 errors, 3 warnings"], ["note: see above"]])
def test_no_cause_is_made_up(lines: list[str]) -> None:
    assert cause_of(lines) == ""
