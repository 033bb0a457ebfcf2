"""Prism: a mock made from GitHub's OpenAPI description, and a proxy that holds requests and answers against it."""

from __future__ import annotations

import copy
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.github import DESCRIPTION
from tests.fakes.node import modules

START_S = 60.0  # on a machine that does other things too; alone it takes two
MEDIA = "application/vnd.github+json"  # what the client asks for; the description knows application/json


def why_not() -> str:
    """Why Prism cannot run here; empty where it can."""
    if shutil.which("node") is None or modules() is None:
        return "node and npm are not installed"
    return ""


def description(folder: Path, *, links: bool) -> Path:
    """The description as Prism needs it; without `links` no answer names a next page that is elsewhere."""
    data = json.loads(DESCRIPTION.read_text(encoding="utf-8"))
    parts = [each for methods in data["paths"].values() for each in methods.values()]
    for response in [
        *(r for part in parts for r in part["responses"].values()),
        *data["components"]["responses"].values(),
    ]:
        content: dict[str, Any] = response.get("content", {})
        if "application/json" in content:
            content[MEDIA] = copy.deepcopy(content["application/json"])
        if not links:
            response.pop("headers", None)
    path = folder / f"github-{links}.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


@contextmanager
def prism(folder: Path, *words: str, links: bool = True) -> Iterator[str]:
    """Prism while this is open, called with `words` around the description; yields its address."""
    found = modules()
    assert found is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    verb, *options = words
    behind = [options.pop()] if verb == "proxy" else []
    program = found / "@stoplight" / "prism-cli" / "dist" / "index.js"
    command = [
        "node",
        str(program),
        verb,
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        *options,
        str(description(folder, links=links)),
        *behind,
    ]
    log = folder / f"prism-{verb}.log"
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            _wait_for(process, port, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"Prism did not start: {log.read_text(encoding='utf-8', errors='replace')[-2_000:]}")
