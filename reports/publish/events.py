"""What GitHub passes to a workflow about the event that started it: payload → `Event`. Pure.

The payload is GitHub's own, so its form is trusted, but a stranger chose some of its words: names of branches, inputs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from evenbench.runner.errors import UntrustedInput, UsageError

from ..text import sanitise

Kind = Literal["workflow_run", "workflow_dispatch", "pull_request", "merge_group", "other"]
State = Literal["queued", "running", "done", "nothing", "failed", "superseded"]

SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
REPOSITORY = re.compile(r"[A-Za-z0-9_-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9_.-]{1,100}")
NUMBER = re.compile(r"#?([1-9][0-9]{0,8})")  # of a pull request, as people write it into a form

APPROVAL = "action_required"  # the conclusion of a run that a maintainer has not yet let start
ENDED: Mapping[str, State] = MappingProxyType(
    {
        "success": "nothing",  # and no results: nothing was measured
        "neutral": "nothing",
        "skipped": "nothing",
        APPROVAL: "queued",
    }
)  # every other conclusion is a failure


@dataclass(frozen=True)
class WorkflowRun:
    """A run of a workflow.

    Attributes:
        id, attempt: later runs have a larger id; running one again adds an attempt.
        number: of the workflow's runs, as GitHub shows it.
        url: its page.
        created: seconds since 1970, by GitHub's clock; 0 where not known.
    """

    id: int
    attempt: int
    number: int
    url: str
    created: int = 0


@dataclass(frozen=True)
class Event:
    """What started a workflow; what the event does not say is empty or None.

    Attributes:
        kind: of event.
        repository: the base repository, ``owner/name``.
        run: for `workflow_run` the run that it is about, else the running one.
        action, conclusion, path, trigger: of a `workflow_run`: what happened to the run, how it ended, its workflow's file,
            and the event that had started it.
        head_repository, head_branch, head_sha: what the run was about; the first is empty where the fork is gone.
        base_sha: where the event names one.
        number: of the pull request; for `workflow_dispatch` the requested one.
        suite: requested by a `workflow_dispatch`.
    """

    kind: Kind
    repository: str
    run: WorkflowRun
    action: str = ""
    conclusion: str = ""
    path: str = ""
    trigger: str = ""
    head_repository: str = ""
    head_branch: str = ""
    head_sha: str = ""
    base_sha: str = ""
    number: int | None = None
    suite: str = ""


def read_event(data: object, repository: str, own: WorkflowRun) -> Event:
    """The event in a payload.

    Args:
        data: the parsed payload.
        repository: ``owner/name`` of the repository that the workflow belongs to; empty for the payload's own.
        own: the run that is reading this.

    Raises:
        UsageError: it is not a payload, or an input of `workflow_dispatch` is malformed.
        UntrustedInput: it is about another repository.
    """
    payload = _checked(_Payload, data)
    its_repository = payload.repository.full_name
    if not REPOSITORY.fullmatch(its_repository):
        raise UsageError("the event names no repository")
    if repository and its_repository.lower() != repository.lower():
        raise UntrustedInput(f"the event is about {its_repository}, not {repository}")
    if payload.workflow_run is not None:
        return _workflow_run(payload.workflow_run, payload.action, its_repository)
    if payload.pull_request is not None:
        pull = payload.pull_request
        return Event(
            "pull_request",
            its_repository,
            own,
            action=payload.action,
            head_repository=pull.head.repo.full_name if pull.head.repo else "",
            head_branch=pull.head.ref,
            head_sha=_sha(pull.head.sha),
            base_sha=_sha(pull.base.sha),
            number=pull.number,
        )
    if payload.merge_group is not None:
        group = payload.merge_group
        return Event("merge_group", its_repository, own, head_sha=_sha(group.head_sha), base_sha=_sha(group.base_sha))
    if "inputs" in payload.model_fields_set:  # null where the form has none
        return _dispatch(payload.inputs or {}, its_repository, own)
    return Event("other", its_repository, own)


def state_of(event: Event) -> tuple[State, str]:
    """What a run without results comes to, and why where that needs a word."""
    if event.kind != "workflow_run":
        return "failed", "no results were given"
    if event.action != "completed":
        return ("running" if event.action == "in_progress" else "queued"), ""
    state = ENDED.get(event.conclusion, "failed")
    reasons: Mapping[State, str] = {
        "queued": "It waits for a maintainer's approval.",
        "nothing": "The run ended well and measured nothing: no file that the benchmarks depend on was touched.",
        "failed": f"The run ended with {event.conclusion or 'no conclusion'} and left no results.",
    }
    if event.conclusion == "cancelled":  # also by GitHub, where a job reaches its `timeout-minutes`
        return state, "The run was cancelled, or reached its time limit, before it had results."
    return state, reasons[state]


def _workflow_run(run: _WorkflowRun, action: str, repository: str) -> Event:
    if run.repository.full_name != repository:
        raise UntrustedInput(f"the event is about a run of {sanitise(run.repository.full_name)}, not of {repository}")
    return Event(
        "workflow_run",
        repository,
        WorkflowRun(run.id, run.run_attempt, run.run_number, run.html_url, seconds(run.created_at)),
        action=action,
        conclusion=run.conclusion or "",
        path=run.path,
        trigger=run.event,
        head_repository=run.head_repository.full_name if run.head_repository else "",
        head_branch=run.head_branch or "",
        head_sha=_sha(run.head_sha),
    )


def _dispatch(inputs: Mapping[str, Any], repository: str, own: WorkflowRun) -> Event:
    values = {name: str(inputs.get(name) or "").strip() for name in ("pull_request", "head_sha", "suite")}
    number = NUMBER.fullmatch(values["pull_request"])
    if values["pull_request"] and number is None:
        raise UsageError(f"pull_request: {values['pull_request'][:40]!r} is not the number of a pull request")
    if values["head_sha"] and not SHA.fullmatch(values["head_sha"]):
        raise UsageError(f"head_sha: {values['head_sha'][:80]!r} is not a full commit id", "40 digits of 0-9 and a-f")
    return Event(
        "workflow_dispatch",
        repository,
        own,
        head_sha=values["head_sha"],
        number=int(number[1]) if number else None,
        suite=values["suite"],
    )


def seconds(when: datetime) -> int:
    """Seconds since 1970; GitHub's times are UTC."""
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())


def _sha(text: str) -> str:
    if not SHA.fullmatch(text):
        raise UsageError("the event holds something else where a commit id belongs")
    return text


class _Repository(BaseModel):
    full_name: str


class _Branch(BaseModel):
    sha: str
    ref: str
    repo: _Repository | None = None


class _PullRequest(BaseModel):
    number: int
    head: _Branch
    base: _Branch


class _MergeGroup(BaseModel):
    head_sha: str
    base_sha: str


class _WorkflowRun(BaseModel):
    id: int
    run_attempt: int = 1
    run_number: int
    html_url: str
    path: str = ""
    event: str
    head_branch: str | None = None
    head_sha: str
    head_repository: _Repository | None = None
    repository: _Repository
    conclusion: str | None = None
    created_at: datetime


class _Payload(BaseModel):
    action: str = ""
    repository: _Repository
    workflow_run: _WorkflowRun | None = None
    pull_request: _PullRequest | None = None
    merge_group: _MergeGroup | None = None
    inputs: dict[str, Any] | None = None


Model = TypeVar("Model", bound=BaseModel)


def _checked(model: type[Model], data: object) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise UsageError(f"the event is not a payload of GitHub: {where}: {first['msg']}") from None
