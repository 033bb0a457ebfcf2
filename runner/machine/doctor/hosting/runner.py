"""Checks of GitHub's runner: its user, credentials in reach, one job a registration, its hooks and clock.

All pure: from readings to checks. Of credentials only places and names are reported, never their contents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....process.bounded import Finished
from ..check import Check, State, ending_of, one_line

# Groups whose members can become root without a password. The group docker is judged with the engine.
AS_GOOD_AS_ROOT = frozenset({"root", "sudo", "wheel", "admin", "disk", "lxd", "incus-admin", "libvirt"})

# Below a user's home: files that grant access elsewhere.
CREDENTIAL_FILES = (
    ".ssh/id_*", ".netrc", ".git-credentials", ".config/git/credentials", ".config/gh/hosts.yml", ".aws/credentials",
    ".azure/*", ".config/gcloud/*", ".kube/config", ".docker/config.json", ".config/containers/auth.json", ".pypirc",
    ".npmrc", ".cargo/credentials*", ".cache/huggingface/token", ".huggingface/token", ".gnupg/private-keys-v1.d/*",
)  # fmt: skip
WITHOUT_SECRETS: Mapping[str, str] = {
    ".docker/config.json": '"auth"',
    ".npmrc": "_auth",
}  # unless they contain this word
CREDENTIAL_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PRIVATE_KEY|API_?KEY|ACCESS_KEY")
JOB_NAMES = re.compile(r"(ACTIONS|GITHUB|RUNNER|INPUT)_")  # set for the job that a hook runs in; they end with it

HOOKS = ("ACTIONS_RUNNER_HOOK_JOB_STARTED", "ACTIONS_RUNNER_HOOK_JOB_COMPLETED")
JIT = "ACTIONS_RUNNER_INPUT_JITCONFIG"  # GitHub's runner takes it for --jitconfig, and out of its jobs' environment
SHOWN = 4


@dataclass(frozen=True)
class User:
    """The user who runs the runner; groups by name."""

    uid: int
    name: str
    home: Path
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Hook:
    """A script that the runner runs around each job. `replaceable`: this user may write it or a folder above it."""

    variable: str
    path: str
    there: bool = False
    executable: bool = False
    replaceable: bool = False


def account(user: User, sudo: Finished) -> Check:
    """Whether the runner's user is an ordinary one.

    Args:
        sudo: the result of ``sudo -n true``, which succeeds only where no password is needed.
    """
    should, fix = "a dedicated ordinary user, with no way to become root", "docs/runner.md, step 5"
    read = one_line(f"{user.name} ({user.uid})")
    strong = sorted(AS_GOOD_AS_ROOT & set(user.groups))
    ways = ["is root"] * (user.uid == 0) + ["may use sudo without a password"] * (sudo.status == 0 and user.uid != 0)
    ways += [f"is in {', '.join(strong)}"] * bool(strong and user.uid)
    read = ": ".join(filter(None, (read, " and ".join(ways))))
    return Check("user", "unfit" if ways else "fit", read, should, fix)


def credentials(files: Sequence[str], environ: Mapping[str, str]) -> Check:
    """Whether the runner's user holds credentials that would let a stranger in elsewhere.

    Args:
        files: those of `CREDENTIAL_FILES` that exist.
        environ: the runner's environment; of values it only matters that there are some.
    """
    should = "none in the home and environment of the runner's user"
    names = sorted(
        name
        for name, value in environ.items()
        if value and CREDENTIAL_NAMES.search(name.upper()) and not JOB_NAMES.match(name)
    )
    places = [*files, *(f"${name}" for name in names)]
    if not places:
        return Check("credentials", "fit", "none found", should, "")
    more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
    fix = "remove them; jobs must be able to fetch without credentials, and images are pulled beforehand"
    return Check("credentials", "unfit", one_line(", ".join(places[:SHOWN]) + more), should, fix)


def ephemeral(settings: str | None, folder: Path, environ: Mapping[str, str]) -> Check:
    """Whether the runner is registered for one job.

    Args:
        settings: the file ``.runner`` in `folder`, which GitHub's runner writes when it is registered; None: no such file.
        environ: holds a just-in-time registration before the runner has written that file.
    """
    should = "registered for one job, so that nothing of one job reaches the next"
    fix = "register it with a just-in-time configuration, or config.sh --ephemeral: docs/runner.md, step 6"
    if settings is None and environ.get(JIT):
        return Check("ephemeral", "fit", "a just-in-time registration", should, "")
    if settings is None:  # an unregistered runner gets no job
        fix = f"name the folder of GitHub's runner with --runner; {fix}"
        return Check("ephemeral", "note", one_line(f"no runner is registered in {folder}"), should, fix)
    try:
        registration: Any = json.loads(settings[: 1 << 20].removeprefix("\ufeff"))  # .NET writes a byte order mark
        values = {str(name).lower(): str(value).lower() for name, value in registration.items()}
    except (ValueError, RecursionError, AttributeError):
        return Check("ephemeral", "unfit", one_line(f"{folder}/.runner cannot be read"), should, fix)
    name = one_line(values.get("agentname", "a runner"))
    if values.get("ephemeral") == "true":
        return Check("ephemeral", "fit", name, should, "")
    return Check("ephemeral", "unfit", f"{name} runs one job after another", should, fix)


def job_hooks(hooks: Sequence[Hook], folder: Path) -> Check:
    """Whether both hooks are set to scripts that GitHub's runner can run and no job can change.

    Args:
        folder: the runner's folder, in which GitHub wants no hook.
    """
    should = f"{' and '.join(HOOKS)}: absolute paths of scripts that only root may change"
    faults = []
    for hook in hooks:
        fault = _fault(hook, folder)
        if fault:
            faults.append(f"{hook.variable}: {fault}")
    if faults:
        fix = "install the hooks and name them in the runner's settings: docs/runner.md, step 6"
        return Check("job hooks", "unfit", one_line("; ".join(faults)), should, fix)
    return Check("job hooks", "fit", one_line(", ".join(hook.path for hook in hooks)), should, "")


def _fault(hook: Hook, folder: Path) -> str:
    """Its first fault; empty where it has none."""
    faults = (
        (not hook.path, "not set"),
        (not hook.path.startswith("/"), f"{hook.path} is not an absolute path"),
        (not hook.path.endswith(".sh"), f"{hook.path}: GitHub's runner chooses the shell by the ending .sh"),
        (not hook.there, f"{hook.path} does not exist"),
        (not hook.executable, f"{hook.path} cannot be executed"),
        (Path(hook.path).is_relative_to(folder), f"{hook.path} is in the runner's own folder"),
        (hook.replaceable, f"{hook.path} can be changed by this user"),
    )
    return next((text for present, text in faults if present), "")


def clock_sync(answer: Finished) -> Check:
    """Whether the clock follows a time server: GitHub's short-lived tokens and the dates of results depend on it.

    Args:
        answer: of ``timedatectl show --property=NTPSynchronized --value``, which asks the kernel.
    """
    should, fix = "synchronised with a time server", "systemctl enable --now systemd-timesyncd, or chrony, as root"
    word = answer.output.decode("utf-8", "replace").strip()
    if answer.status != 0 or word not in {"yes", "no"}:
        return Check("time", "note", f"cannot be read: {ending_of(answer)}", should, fix)
    state: State = "fit" if word == "yes" else "note"
    return Check("time", state, "synchronised" if word == "yes" else "not synchronised", should, fix)
