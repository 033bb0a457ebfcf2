"""The label by which a maintainer accepts a regression: who added it, and whether it is meant for this commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from .client import GitHub, NotFound
from .events import seconds
from .outcome import LABEL
from .pull_request import Label, checked


@dataclass(frozen=True)
class Acceptance:
    """Who accepted; or, where `by` is empty, why the label does not count."""

    by: str
    why: str = ""


def acceptance(github: GitHub, repository: str, number: int, since: int) -> Acceptance:
    """Whether the label that a pull request carries counts for its head.

    Args:
        github: with whom to speak.
        repository: ``owner/name``.
        number: of the pull request.
        since: when GitHub first reported this head, seconds since 1970.
    """
    labeled: _Event | None = None
    for event in _events(github, repository, number):
        if event.event == "head_ref_force_pushed":
            since = max(since, seconds(event.created_at))
        elif event.event == "labeled" and event.label is not None and event.label.name == LABEL:
            labeled = event
    if labeled is None or labeled.actor is None:
        return Acceptance("", "it is not known who added it")
    who = labeled.actor.login
    if seconds(labeled.created_at) <= since:
        return Acceptance("", f"{who} added it before this commit was pushed; remove it and add it again")
    permission = _permission(github, repository, who)
    if permission not in ("admin", "write"):  # GitHub answers "write" for the role maintain, too
        return Acceptance("", f"{who} may not write to this repository")
    return Acceptance(who)


def _events(github: GitHub, repository: str, number: int) -> Iterator[_Event]:
    for item in github.pages(f"/repos/{repository}/issues/{number}/events"):
        yield checked(_Event, item)


def _permission(github: GitHub, repository: str, who: str) -> str:
    try:
        return checked(_Permission, github.get(f"/repos/{repository}/collaborators/{who}/permission")).permission
    except NotFound:  # bots, and people who left
        return "none"


class _Actor(BaseModel):
    login: str


class _Event(BaseModel):
    event: str
    created_at: datetime
    actor: _Actor | None = None
    label: Label | None = None


class _Permission(BaseModel):
    permission: str
