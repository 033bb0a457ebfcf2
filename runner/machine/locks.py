"""The locks that keep two runs off one GPU, or off the host; a run that waits reports for which one.

A lock is the kernel's, on an open file, so a killed run's lock is free at once, whatever its file still contains. The
text in the file is for people alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ..errors import UnfitMachine, UsageError
from ..records.reader import printable

FOLDER = "/tmp"  # of lock files, whatever TMPDIR is: all runs of a machine must meet there  # noqa: S108
SETTING = "EVENBENCH_LOCKS"  # environment variable: another folder
HOST = "host"  # name of the lock of a machine without GPUs
WAIT_S = 3_600.0  # a full run of another job may hold the machine for about an hour
POLL_S = 1.0
TEXT_MAX = 1_000  # characters of each value of a lock's file that are shown
FILE_MAX = 16_384  # bytes of a lock's file that are read: another user may have written it


@contextlib.contextmanager
def machine_locks(
    names: Sequence[str],
    waiting: Callable[[str], None],
    *,
    description: str = "",
    output: str = "",
    wait: bool = True,
    folder: Path | None = None,
    wait_s: float = WAIT_S,
) -> Iterator[None]:
    """Hold the host-wide locks of GPUs (by UUID) or of the host, so that no two runs disturb each other.

    Args:
        names: UUIDs, or `HOST`. Every run takes them in the same order, so no two runs wait for each other.
        waiting: called once for each lock that another run holds, with a line that names that run.
        description, output: this run in words, and its results file: shown to runs that wait for it.
        wait: False: raise at once where another run holds a lock.
        folder: where lock files are; default: the value of `SETTING`, else `FOLDER`.
        wait_s: seconds to wait for another run.

    Raises:
        UsageError: `SETTING` is a relative path.
        UnfitMachine: another run holds a lock, or has held it for `wait_s`; or a lock's file cannot be trusted.
    """
    with contextlib.ExitStack() as stack:
        for name in sorted(set(names)):
            path = (folder or _folder()) / f"evenbench-{re.sub(r'[^A-Za-z0-9-]', '_', name)}.lock"
            descriptor = _take(name, path, waiting, wait_s if wait else None)
            stack.callback(os.close, descriptor)
            _write(descriptor, _holder(description, output))
            stack.callback(_write, descriptor, "")
        yield


def _folder() -> Path:
    """Raises UsageError for a relative path: runs from other working directories would use another folder."""
    folder = Path(os.environ.get(SETTING) or FOLDER)
    if not folder.is_absolute():
        raise UsageError(
            f"{SETTING}={printable(str(folder))}: must be an absolute path",
            "name one folder, the same for all runs of the machine, or unset it",
        )
    return folder


def _take(name: str, path: Path, waiting: Callable[[str], None], wait_s: float | None) -> int:
    """Lock the file; returns its descriptor. `wait_s` None: now or not at all."""
    deadline = time.monotonic() + (wait_s or 0.0)
    reported = False
    while True:
        descriptor = _open(path)
        if _locked(descriptor):
            if _is_current(descriptor, path):
                return descriptor
            os.close(descriptor)  # removed in the meantime: the next run would lock another file
            continue
        problem = f"another run is measuring on {name}{_held_by(descriptor)}"
        os.close(descriptor)
        if wait_s is None:
            raise UnfitMachine(problem, "run without --no-wait to wait for it")
        if not reported:
            waiting(f"{problem}; waiting for it to end")
            reported = True
        if time.monotonic() > deadline:
            raise UnfitMachine(f"{problem}, for over {wait_s:g} s", f"its lock is {path}")
        time.sleep(POLL_S)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to this file: temporary folders are cleaned by other programs."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    return False


def _open(path: Path) -> int:
    """The lock file, never through a link; another user's file serves as well, since a lock needs no write."""
    problem = ""
    for flags in (os.O_RDWR | os.O_CREAT, os.O_RDWR, os.O_RDONLY):  # fs.protected_regular: no O_CREAT on others' files
        try:  # a pipe left there would block without O_NONBLOCK
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
        except OSError as error:
            problem = str(error.strerror)
            if not isinstance(error, PermissionError):
                break
        else:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_nlink <= 1:  # a hard link may lead to any file of this user
                with contextlib.suppress(PermissionError):  # another user's; else for all users, whatever the umask
                    os.fchmod(descriptor, 0o666)
                return descriptor
            os.close(descriptor)
            problem = "it is not a plain file with one name"
            break
    fix = (
        f"remove it or make it readable for this user, or name another folder for all runs of the machine in {SETTING}"
    )
    raise UnfitMachine(f"the lock {path} cannot be opened: {problem}", fix)


def _holder(description: str, output: str) -> str:
    """The text that this process writes into its lock's file."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return json.dumps(
        {"pid": os.getpid(), "start": _start(os.getpid()), "since": now, "what": description, "output": output}
    )


def _write(descriptor: int, text: str) -> None:
    """Overwrite the file; does nothing where it is another user's or the disk is full: the lock holds all the same."""
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(errors="replace")[:FILE_MAX], 0)


def _held_by(descriptor: int) -> str:
    """Who holds the lock, where its file names a process that is still running; else empty."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        holder = json.loads(os.pread(descriptor, FILE_MAX, 0))
        start = _start(holder["pid"]) if isinstance(holder, dict) and isinstance(holder.get("pid"), int) else None
        if start is None or start != holder.get("start"):
            return ""
        values = (printable(str(holder.get(name, "")))[:TEXT_MAX] for name in ("since", "what", "output"))
        since, description, output = values
        parts = [f"process {holder['pid']}", description, since and f"since {since}", output and f"results in {output}"]
        return f": {', '.join(filter(None, parts))}"
    return ""


def _start(pid: int) -> int | None:
    """When a process started, in the kernel's ticks, which tells it from a later one of the same number; None: no such process."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(
            Path("/proc", str(pid), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        )  # starttime, see proc_pid_stat(5)
    return None
