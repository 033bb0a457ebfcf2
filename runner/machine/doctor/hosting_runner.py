"""Checks of GitHub's runner: whose it is, what it could give away, that it takes one job, its hooks and its time.

All pure: from what was read to what it means. Of credentials only places and names are told, never what they hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...process.bounded import Finished
from .check import Check, State, one_line, said

# Groups whose members can become root without asking anybody. That of docker is judged with the engine.
AS_GOOD_AS_ROOT = frozenset({"root", "sudo", "wheel", "admin", "disk", "lxd", "incus-admin", "libvirt"})

# Below the home of a user: what lets its owner in elsewhere.
CREDENTIAL_FILES = (
    ".ssh/id_*", ".netrc", ".git-credentials", ".config/git/credentials", ".config/gh/hosts.yml", ".aws/credentials",
    ".azure/*", ".config/gcloud/*", ".kube/config", ".docker/config.json", ".config/containers/auth.json", ".pypirc",
    ".npmrc", ".cargo/credentials*", ".cache/huggingface/token", ".huggingface/token", ".gnupg/private-keys-v1.d/*",
)  # fmt: skip
WITHOUT_SECRETS: Mapping[str, str] = {".docker/config.json": '"auth"', ".npmrc": "_auth"}  # unless this word is in them
CREDENTIAL_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PRIVATE_KEY|API_?KEY|ACCESS_KEY")
JOB_NAMES = re.compile(r"(ACTIONS|GITHUB|RUNNER|INPUT)_")  # of the job that a hook runs in: gone with it

HOOKS = ("ACTIONS_RUNNER_HOOK_JOB_STARTED", "ACTIONS_RUNNER_HOOK_JOB_COMPLETED")
JIT = "ACTIONS_RUNNER_INPUT_JITCONFIG"  # GitHub's runner takes it for --jitconfig, and out of its jobs' environment
SETTINGS_MAX = 1 << 20  # characters of the runner's own file
SHOWN = 4


@dataclass(frozen=True)
class User:
    """Who runs the runner: its groups by name."""

    uid: int
    name: str
    home: Path
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Hook:
    """A script that the runner runs around each job, as found. `replaceable`: this user may write it or its folder."""

    variable: str
    path: str
    there: bool = False
    executable: bool = False
    replaceable: bool = False


def account(user: User, sudo: Finished) -> Check:
    """Whether the runner's user is an ordinary one.

    Args:
        sudo: of ``sudo -n true``, which ends well only where no password is asked for.
    """
    should, mend = "an ordinary user of its own, without a way to become root", "docs/runner.md, step 5"
    read = one_line(f"{user.name} ({user.uid})")
    strong = sorted(AS_GOOD_AS_ROOT & set(user.groups))
    ways = ["is root"] * (user.uid == 0) + ["may use sudo without a password"] * (sudo.status == 0 and user.uid != 0)
    ways += [f"is in {', '.join(strong)}"] * bool(strong and user.uid)
    read = ": ".join(filter(None, (read, " and ".join(ways))))
    return Check("user", "unfit" if ways else "fit", read, should, mend)


def credentials(files: Sequence[str], environ: Mapping[str, str]) -> Check:
    """Whether the runner's user holds what would let a stranger in elsewhere.

    Args:
        files: of `CREDENTIAL_FILES`, those that are there.
        environ: of the runner; names are looked at, values only for being there.
    """
    should = "none in the home and environment of the runner's user"
    names = sorted(
        name
        for name, value in environ.items()
        if value and CREDENTIAL_NAMES.search(name.upper()) and not JOB_NAMES.match(name)
    )
    found = [*files, *(f"${name}" for name in names)]
    if not found:
        return Check("credentials", "fit", "none found", should, "")
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    mend = "remove them; what jobs fetch must be readable without, and pulled images are there before"
    return Check("credentials", "unfit", one_line(", ".join(found[:SHOWN]) + more), should, mend)


def ephemeral(settings: str | None, folder: Path, environ: Mapping[str, str]) -> Check:
    """Whether the runner is registered for one job.

    Args:
        settings: the file ``.runner`` in `folder`, which GitHub's runner writes when it is registered; None without.
        environ: where a just-in-time registration comes before the runner has written it.
    """
    should = "registered for one job, so that nothing of it meets the next"
    mend = "register it with a just-in-time configuration, or config.sh --ephemeral: docs/runner.md, step 6"
    if settings is None and environ.get(JIT):
        return Check("ephemeral", "fit", "a just-in-time registration", should, "")
    if settings is None:  # such a one takes no job
        where = f"name the folder of GitHub's runner with --runner; {mend}"
        return Check("ephemeral", "note", one_line(f"no runner is registered in {folder}"), should, where)
    try:
        held: Any = json.loads(settings[:SETTINGS_MAX].removeprefix("\ufeff"))  # .NET writes a byte order mark
        values = {str(name).lower(): str(value).lower() for name, value in held.items()}
    except (ValueError, RecursionError, AttributeError):
        return Check("ephemeral", "unfit", one_line(f"{folder}/.runner cannot be read"), should, mend)
    name = one_line(values.get("agentname", "a runner"))
    if values.get("ephemeral") == "true":
        return Check("ephemeral", "fit", name, should, "")
    return Check("ephemeral", "unfit", f"{name} takes one job after the other", should, mend)


def job_hooks(found: Sequence[Hook], folder: Path) -> Check:
    """Whether both hooks are set to scripts that GitHub's runner can run and no job can change.

    Args:
        folder: of the runner, where GitHub wants no hook to be.
    """
    should = f"{' and '.join(HOOKS)}: absolute paths of scripts that only root may change"
    faults = [f"{hook.variable}: {fault}" for hook in found if (fault := _fault(hook, folder))]
    if faults:
        mend = "install the hooks and name them in the runner's settings: docs/runner.md, step 6"
        return Check("job hooks", "unfit", one_line("; ".join(faults)), should, mend)
    return Check("job hooks", "fit", one_line(", ".join(hook.path for hook in found)), should, "")


def _fault(hook: Hook, folder: Path) -> str:
    """The first of its faults; empty without."""
    faults = (
        (not hook.path, "not set"),
        (not hook.path.startswith("/"), f"{hook.path} is no absolute path"),
        (not hook.path.endswith(".sh"), f"{hook.path}: GitHub's runner tells the shell by the ending, .sh"),
        (not hook.there, f"{hook.path} is not there"),
        (not hook.executable, f"{hook.path} cannot be executed"),
        (Path(hook.path).is_relative_to(folder), f"{hook.path} lies in the runner's own folder"),
        (hook.replaceable, f"{hook.path} can be changed by this user"),
    )
    return next((text for wrong, text in faults if wrong), "")


def time_in_step(answer: Finished) -> Check:
    """Whether the clock follows a time server: GitHub's short-lived tokens and the dates of results depend on it.

    Args:
        answer: of ``timedatectl show --property=NTPSynchronized --value``, which asks the kernel.
    """
    should, mend = "set by a time server", "systemctl enable --now systemd-timesyncd, or chrony, as root"
    word = answer.output.decode("utf-8", "replace").strip()
    if answer.status != 0 or word not in {"yes", "no"}:
        return Check("time", "note", f"cannot be read: {said(answer)}", should, mend)
    state: State = "fit" if word == "yes" else "note"
    return Check("time", state, "follows one" if word == "yes" else "follows none", should, mend)
