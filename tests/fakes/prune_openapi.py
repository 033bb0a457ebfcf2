"""GitHub's OpenAPI description, cut down to what the client uses: ``prune_openapi.py SOURCE > tests/data/github_openapi.json``.

SOURCE is `generated/api.github.com.json` of the npm package `@octokit/openapi`; run it again for a newer one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = "/repos/{owner}/{repo}"
KEPT: Mapping[str, Sequence[str]] = {
    "/pulls": ["get"],
    "/pulls/{pull_number}": ["get"],
    "/issues/{issue_number}/comments": ["get", "post"],
    "/issues/comments/{comment_id}": ["get", "patch", "delete"],
    "/issues/{issue_number}/events": ["get"],
    "/collaborators/{username}/permission": ["get"],
    "/actions/runs/{run_id}/artifacts": ["get"],
    "/check-runs": ["post"],
    "/check-runs/{check_run_id}": ["get", "patch"],
    "/commits/{ref}/check-runs": ["get"],
}
DATA = {"value", "example"}  # examples, kept as they are
PROSE = {"description", "summary", "externalDocs", "x-github", "x-octokit"}
NOTICE = (
    "Cut from the npm package @octokit/openapi, © 2020 Octokit contributors, which derives from "
    "github/rest-api-description, © 2020 GitHub. MIT License: "
)


def references(part: Any) -> Iterator[str]:
    """All that a part of the description points to."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def without_prose(part: Any) -> Any:
    """A part of the description that validates as before."""
    if isinstance(part, dict):
        prose = {key for key in PROSE & part.keys() if not isinstance(part[key], dict) or key.startswith(("x-", "ext"))}
        return {key: value if key in DATA else without_prose(value) for key, value in part.items() if key not in prose}
    return [without_prose(value) for value in part] if isinstance(part, list) else part


def pruned(whole: Mapping[str, Any], licence: str) -> dict[str, Any]:
    """The paths that are kept and what they point to."""
    paths = {
        REPOSITORY + path: {method: whole["paths"][REPOSITORY + path][method] for method in methods}
        for path, methods in KEPT.items()
    }
    components: dict[str, dict[str, Any]] = {}
    waiting = list(references(paths))
    while waiting:
        _, _, kind, name = waiting.pop().split("/")
        if name not in components.setdefault(kind, {}):
            components[kind][name] = whole["components"][kind][name]
            waiting += references(components[kind][name])
    info = {key: whole["info"][key] for key in ("title", "version", "license")} | {"x-notice": NOTICE + licence}
    kept = without_prose({"paths": paths, "components": components})
    for response in [*kept["components"].get("responses", {}).values()]:
        response["description"] = ""
    for methods in kept["paths"].values():
        for each in methods.values():
            for response in each["responses"].values():
                if "$ref" not in response:
                    response["description"] = ""
    return {"openapi": whole["openapi"], "info": info, "servers": whole["servers"], **kept}


if __name__ == "__main__":
    source = Path(sys.argv[1])
    mit = " ".join((source.parents[1] / "LICENSE").read_text(encoding="utf-8").split())
    json.dump(pruned(json.loads(source.read_text(encoding="utf-8")), mit), sys.stdout, ensure_ascii=False)
    sys.stdout.write("\n")
