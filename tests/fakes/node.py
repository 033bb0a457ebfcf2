"""Packages of npm that tests use, installed once into a folder that git ignores."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent / "npm" / "package.json"
FOLDER = PACKAGE.parents[3] / ".cache" / "npm"
PATIENCE_S = 280.0  # for a slow line; below pytest's own timeout


@cache
def modules() -> Path | None:
    """`node_modules` with the packages of npm/package.json; None where there is no npm."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    FOLDER.mkdir(parents=True, exist_ok=True)
    stamp, wanted = FOLDER / "installed.json", PACKAGE.read_text(encoding="utf-8")
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
            (FOLDER / "package.json").write_text(wanted, encoding="utf-8")
            quiet = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run([npm, "install", *quiet], cwd=FOLDER, check=True, timeout=PATIENCE_S)
            stamp.write_text(wanted, encoding="utf-8")
    return FOLDER / "node_modules"


@cache
def _payloads() -> Any:
    found = modules()
    assert found is not None
    return json.loads((found / "@octokit/webhooks-examples/api.github.com/index.json").read_text(encoding="utf-8"))


def payload(event: str, action: str | None = None) -> dict[str, Any]:
    """A copy of the first real payload of an event, with that action."""
    examples = next(each["examples"] for each in _payloads() if each["name"] == event)
    found = next(each for each in examples if action is None or each.get("action") == action)
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]
