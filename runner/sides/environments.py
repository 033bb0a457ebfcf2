"""The Python environment of a side: an empty virtual one that sees our interpreter's packages, and its variables.

An environment holds what its side's set-up installs. Everything else comes from our own interpreter through one
``.pth`` file. Lines of a ``.pth`` only extend the path, they are not searched for further ``.pth`` files: editable
installs, which would put one checkout behind both sides, do not pass, and neither do evenbench's own modules when it
runs from a checkout. Installed among the packages they can be imported, behind the side's own root.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import re
import shlex
import shutil
import site
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import NothingMeasured, UsageError
from ..process.bounded import Finished, readable, run_bounded

PYTHON_MIN = (3, 11)  # the first with -P, which launches start with
PROBE_TIMEOUT_S = 120.0  # for an interpreter to say its version, from a cold disk
PROBE_OUTPUT_MAX = 4 << 10
SETUP_TIMEOUT_S = 3600.0  # building a large CUDA extension takes tens of minutes
SETUP_OUTPUT_MAX = 64 << 10  # bytes kept of the end of a set-up's output
SETUP_LINES = 5  # of it in the error message
SETUP_LINE_MAX = 200  # characters each
PTH_FILE = "evenbench.pth"

CACHES: Mapping[str, str] = MappingProxyType(
    {
        "CUDA_CACHE_PATH": "cuda",
        "CUPY_CACHE_DIR": "cupy",
        "FLASHINFER_WORKSPACE_BASE": "flashinfer",
        "NUMBA_CACHE_DIR": "numba",
        "EVENBENCH_PYCACHE": "pycache",  # where launches keep compiled modules, so that what is measured in place stays as it is
        "TILELANG_CACHE_DIR": "tilelang",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TORCH_EXTENSIONS_DIR": "extensions",
        "TRITON_CACHE_DIR": "triton",
        "XDG_CACHE_HOME": "xdg",
    }
)
"""Variables that move a compiler's or tuner's cache, and the folder of each below the side's own."""

_DROPPED = frozenset({
    "CONDA_PYTHON_EXE", "PYTHONDONTWRITEBYTECODE", "PYTHONEXECUTABLE", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH",
    "PYTHONPLATLIBDIR", "PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT",
    "__PYVENV_LAUNCHER__",
    "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE",
    # These would install past the environment, or refuse to install into it.
    "PIP_BREAK_SYSTEM_PACKAGES", "PIP_CONFIG_FILE", "PIP_DRY_RUN", "PIP_PREFIX", "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV",
    "PIP_ROOT", "PIP_TARGET", "PIP_USER",
    "UV_BREAK_SYSTEM_PACKAGES", "UV_CONFIG_FILE", "UV_MANAGED_PYTHON", "UV_NO_MANAGED_PYTHON", "UV_PREFIX", "UV_PROJECT",
    "UV_PROJECT_ENVIRONMENT", "UV_PYTHON", "UV_PYTHON_PREFERENCE", "UV_SYSTEM_PYTHON", "UV_TARGET",
    "UV_WORKING_DIRECTORY", "UV_WORKING_DIR",
})  # fmt: skip
PIP_REDIRECTS = frozenset({
    "break-system-packages", "dry-run", "prefix", "python", "require-virtualenv", "root", "target", "user",
})  # fmt: skip
"""Keys of pip's configuration that install somewhere else than into the environment, or not at all."""
UV_REDIRECTS = frozenset({"break-system-packages", "prefix", "python", "system", "target"})
"""Keys of the table `pip` of uv's configuration that do the same."""
# GITHUB_ENV and its like let a process write into later steps of a workflow; ACTIONS_ holds its tokens.
_DROPPED_PREFIXES = ("ACTIONS_", "GITHUB_")
_SECRET = re.compile(
    r"(TOKENS?|SECRETS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEYS?|(?<![A-Z])(KEYS?|PAT))([_-]|$)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"\b(gh[a-z]_[A-Za-z0-9]{16}|github_pat_[A-Za-z0-9]{16})")  # GitHub's, under whatever name


_CAUSE = re.compile(
    r"(^|[\s:(])(fatal )?error( C?\d+)?:? |^E: |\berror\[E\d+\]|(^|\.)[A-Z]\w*(Error|Exception|Exit)(: |$)|^ERROR:? |^fatal: |^CMake Error"
    r"|: (command )?not found$|No such file or directory|No space left on device|Permission denied|Killed$|^nvcc fatal"
    r"|undefined reference to|No rule to make target|Could not find a version|No module named",
    re.IGNORECASE,
)
_SUMMARY = re.compile(
    r"subprocess-exited-with-error|metadata-generation-failed|Failed building wheel|Failed to build|legacy-install-failure"
    r"|could not build wheels|command '.*' failed|CalledProcessError|subprocess\.|build stopped|\bError \d+$|exit (code|status)"
    r"|could not compile|aborting due to|\d+ errors? (generated|detected)|Getting requirements|resulted in an error"
    r"|during handling of|Error compiling objects|returned non-zero",
    re.IGNORECASE,
)


def make_environment(folder: Path, paths: Sequence[Path], *, with_pip: bool) -> Path:
    """Make a virtual environment whose path ends with `paths`; returns its interpreter.

    Its ``pip``, for set-up, is our interpreter's own package run by the environment's interpreter, which installs
    into the environment, starts at once and needs no ``ensurepip``; without one, ensurepip's copy. The script is
    there in any case, so that no other ``pip`` further down PATH installs somewhere else.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    python = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    (packages / PTH_FILE).write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    if with_pip:
        if not any((path / "pip" / "__main__.py").is_file() for path in paths):
            command = [str(python), "-I", "-m", "ensurepip"]
            run_bounded(
                command, cwd=folder, environment=os.environ, timeout_s=PROBE_TIMEOUT_S, keep=PROBE_OUTPUT_MAX
            )  # where it cannot, `pip` says that there is none
        for name in ("pip", "pip3", f"pip{sys.version_info[0]}.{sys.version_info[1]}"):
            script = python.with_name(name)
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} -P -m pip "$@"\n', encoding="utf-8")
            script.chmod(0o755)
    return python


def shared_paths(environ: Mapping[str, str], repo: Path, root: Path) -> list[Path]:
    """What an environment sees of our interpreter: PYTHONPATH without evenbench itself, and the site directories.

    PYTHONPATH entries inside the user's repository become the same folders of the side: as they stand, they would put
    the working tree behind every side.
    """
    own = Path(str(sys.modules[__name__.partition(".")[0]].__file__)).resolve().parents[1]
    sites = [Path(path) for path in site.getsitepackages()]
    if site.ENABLE_USER_SITE:
        sites.append(Path(site.getusersitepackages()))
    paths = []
    for entry in filter(None, environ.get("PYTHONPATH", "").split(os.pathsep)):
        path = Path(entry).resolve()
        if path != own:
            paths.append(root / path.relative_to(repo) if path.is_relative_to(repo) else path)
    for folder in sites:
        paths += [folder, *_inner_paths(folder)]
    return list(dict.fromkeys(paths))


def _inner_paths(folder: Path) -> list[Path]:
    """Folders inside a site directory that its own ``.pth`` files list: parts of installed packages, no checkouts."""
    found = []
    for file in sorted(folder.glob("*.pth")):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            path = folder / line.strip()
            inside = path != folder and path.resolve().is_relative_to(folder.resolve())
            if inside and not line.startswith(("#", "import ", "import\t")) and os.path.isdir(path):  # noqa: PTH112 - never raises
                found.append(path)
    return found


def side_variables(environ: Mapping[str, str], python: Path, cache: Path) -> dict[str, str]:
    """All variables of a side's processes: ours, without secrets and what redirects Python, with the side's caches."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in _DROPPED
        and not name.startswith(_DROPPED_PREFIXES)
        and not _SECRET.search(name)
        and not _TOKEN.search(value)
    }
    binaries = python.parent
    if (binaries.parent / "pyvenv.cfg").is_file():
        kept["VIRTUAL_ENV"] = str(binaries.parent)
    for name, folder in CACHES.items():
        kept[name] = str(cache / folder)
        (cache / folder).mkdir(parents=True, exist_ok=True)
    kept["PATH"] = os.pathsep.join((str(binaries), environ.get("PATH", os.defpath)))
    for name, value in pip_settings(environ).items():
        kept.setdefault(name, value)
    kept["PIP_CONFIG_FILE"] = os.devnull  # no file of settings: the variables hold what may be kept of them
    kept["UV_PROJECT_ENVIRONMENT"] = str(binaries.parent)  # else `uv sync` creates another one in the tree
    kept["PYTHONDONTWRITEBYTECODE"] = (
        "1"  # until a launch has set where to: see evenbench.runner.worker.launch.jobs.enter_root
    )
    kept["PYTHONHASHSEED"] = "0"  # sets and dicts of strings are walked in the same order on every side
    return kept


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of pip's configuration files as variables of pip's, such as `PIP_INDEX_URL`, without redirects.

    The files are those that pip reads outside a virtual environment, later ones first in rank:
    https://pip.pypa.io/en/stable/topics/configuration/.
    """
    if environ.get("PIP_CONFIG_FILE") == os.devnull:
        return {}
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - never raises
    folders = [Path(folder) for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep) if folder]
    files = [folder / "pip" / "pip.conf" for folder in reversed(folders)]
    files += [Path("/etc/pip.conf"), home / ".pip" / "pip.conf"]
    files.append(Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf")
    files.append(Path(sys.prefix) / "pip.conf")
    if environ.get("PIP_CONFIG_FILE"):
        files.append(Path(environ["PIP_CONFIG_FILE"]))
    settings = {}
    for file in files:
        config = configparser.RawConfigParser()
        with contextlib.suppress(OSError, UnicodeDecodeError, configparser.Error):
            config.read(file, encoding="utf-8")
        for section in ("global", "install"):
            for key, value in config.items(section) if config.has_section(section) else ():
                name = key.lower().replace("_", "-").removeprefix("--")
                if value and name not in PIP_REDIRECTS:
                    settings[f"PIP_{name.upper().replace('-', '_')}"] = value
    return settings


def refuse_uv_redirects(environ: Mapping[str, str], root: Path, command: str) -> None:
    """Refuse a set-up by uv whose configuration installs somewhere else than into the side's environment.

    Raises:
        UsageError: a file does; names it and the key.
    """
    if not re.search(r"\buv\b", command):
        return
    home = Path(environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - never raises
    user = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"
    for file in (Path("/etc/uv/uv.toml"), user, root / "uv.toml", root / "pyproject.toml"):
        table: Any = {}
        with contextlib.suppress(OSError, ValueError):
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        for key in ("tool", "uv", "pip") if file.name == "pyproject.toml" else ("pip",):
            table = table.get(key) if isinstance(table, dict) else None
        keys = sorted(UV_REDIRECTS & set(table)) if isinstance(table, dict) else []
        if keys:
            raise UsageError(
                f"{file} sets pip.{keys[0]}, so uv would install past the environment of a side",
                "remove that key, or set up with pip",
            )


def installed_names(paths: Sequence[Path], own: Path) -> dict[str, int]:
    """What the site directories of our own interpreter hold, with what changes on an install: set-up must leave it alone.

    Of a file and of a distribution's metadata that is the time of change; of a package's folder its inode, since the first
    import of a package, by whatever process, changes the folder's time.

    Args:
        own: the folder of a side, which does not count.
    """
    names = {}
    for path in paths:
        with contextlib.suppress(OSError):
            if not path.is_relative_to(own):
                for entry in os.scandir(path):
                    if entry.name != "__pycache__":
                        status = entry.stat(follow_symlinks=False)
                        package = entry.is_dir() and not entry.name.endswith((".dist-info", ".egg-info"))
                        names[entry.path] = status.st_ino if package else status.st_mtime_ns
    return names


def refuse_changed_packages(name: str, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Refuse a side whose set-up changed the packages of our own interpreter, which both sides see.

    Raises:
        NothingMeasured: it did; names what is new, changed or gone.
    """
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    if changed:
        raise NothingMeasured(
            f"set-up of {name} changed what both sides share: {', '.join(sorted(changed)[:3])}",
            "let it install into the side's environment, with `pip` or `python -m pip` as PATH has them",
        )


def refuse_noexec(folder: Path) -> None:
    """Refuse a temporary folder from which nothing can be run.

    Raises:
        UsageError: its file system is mounted noexec.
    """
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise UsageError(
            f"{folder} is mounted noexec, so the environments of the sides cannot run there",
            "name another folder with TMPDIR",
        )


def given_python(name: str, text: str) -> Path:
    """The interpreter that a command line names for a side: a path, or a program on PATH; links are not followed.

    Raises:
        UsageError: it cannot be run, or is older than `PYTHON_MIN`.
    """
    found = shutil.which(Path(text).expanduser())
    if found is None:
        raise UsageError(f"{name}: no such interpreter: {text}", "give the path of a python executable")
    path = Path(found).absolute()  # not resolved: a virtual environment's interpreter is a link
    command = [str(path), "-I", "-c", "import sys; print(*sys.version_info[:2])"]
    try:
        probe = run_bounded(
            command, cwd=Path.cwd(), environment=os.environ, timeout_s=PROBE_TIMEOUT_S, keep=PROBE_OUTPUT_MAX
        )
    except OSError as error:
        raise UsageError(f"{name}: {text} cannot be run: {error.strerror}") from error
    version = re.fullmatch(rb"(\d+) (\d+)\s*", probe.output)
    if probe.status != 0 or version is None:
        raise UsageError(f"{name}: {text} is no Python interpreter", "give the path of a python executable")
    if (int(version[1]), int(version[2])) < PYTHON_MIN:
        needed = ".".join(map(str, PYTHON_MIN))
        raise UsageError(
            f"{name}: {text} is Python {int(version[1])}.{int(version[2])}", f"at least {needed} is needed"
        )
    return path


def run_setup(name: str, command: str, root: Path, variables: Mapping[str, str], *, log: Callable[[str], None]) -> None:
    """Run a side's set-up command in its tree; see `refuse_failed_setup`."""
    finished = run_bounded(
        ["/bin/sh", "-e", "-c", command],  # as `run:` of a workflow: it ends at the first line that fails
        cwd=root,
        environment=variables,
        timeout_s=SETUP_TIMEOUT_S,
        keep=SETUP_OUTPUT_MAX,
        merge=True,
    )
    refuse_failed_setup(name, command, finished, log=log)


def cause_of(lines: Sequence[str]) -> str:
    """The first line of a set-up's output that names why it failed; empty where none does.

    Tools end with summaries of their own, which say that something failed, not what.
    """
    for line in lines:
        text = line.strip()
        if _CAUSE.search(text) and not _SUMMARY.search(text):
            return text[: 2 * SETUP_LINE_MAX]
    return ""


def refuse_failed_setup(name: str, command: str, finished: Finished, *, log: Callable[[str], None]) -> None:
    """Nothing for a set-up that worked. Of one that failed `log` gets the end of its output.

    Raises:
        NothingMeasured: it failed or ran too long; the message ends with what it wrote last.
    """
    if finished.status == 0:
        return
    if finished.status is None:
        outcome = f"ran longer than {SETUP_TIMEOUT_S:.0f} s"
    elif finished.status < 0:
        outcome = f"was ended by signal {-finished.status}"
    else:
        outcome = f"failed with exit status {finished.status}"
    lines = readable(finished.output)
    for line in lines:
        log(f"{name} | {line}")
    last = cause_of(lines) or " | ".join(line[:SETUP_LINE_MAX] for line in lines[-SETUP_LINES:]) or "no output"
    shown = "; ".join(line.strip() for line in command.splitlines() if line.strip())
    raise NothingMeasured(f"set-up of {name} {outcome}: {last}", f"the command was: {shown}" if shown else "")
