"""Event → the pull request that it means, or why it means no pull request.

The number never comes from a results file, nor from `workflow_run.pull_requests`, which is empty for forks: the API is
asked which pull request has this head repository, branch and commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from evenbench.runner.errors import GitHubRefused, PullRequestMoved, UntrustedInput

from ..text import sanitise
from .client import GitHub, NotFound
from .events import Event

Reason = Literal[
    "",  # resolved
    "no-pull-request",  # the event means none
    "wrong-workflow",  # the run is of another workflow's file
    "deleted-fork",
    "not-found",
    "closed",
    "moved",  # its head is another commit by now
    "ambiguous",  # several pull requests of one branch: a check run for all of them, no comment
]
WORKFLOW = ".github/workflows/benchmark.yml"  # whose runs are published


class Repository(BaseModel):
    """A repository, as far as it matters here."""

    full_name: str


class Branch(BaseModel):
    """Head or base of a pull request; a deleted fork has no `repo`."""

    ref: str
    sha: str
    repo: Repository | None = None

    def is_of(self, repository: str) -> bool:
        """Whether it is in that repository."""
        return self.repo is not None and self.repo.full_name.lower() == repository.lower()


class Label(BaseModel):
    """A label."""

    name: str


class Pull(BaseModel):
    """A pull request."""

    number: int
    state: Literal["open", "closed"]
    head: Branch
    base: Branch
    labels: list[Label] = []

    @property
    def from_fork(self) -> bool:
        """Whether its code comes from outside the repository."""
        return self.base.repo is None or not self.head.is_of(self.base.repo.full_name)


@dataclass(frozen=True)
class Resolution:
    """What an event means.

    Attributes:
        number: of the pull request; None where it means no pull request, or `reason` forbids naming it.
        head_sha: the commit that was, or is to be, measured; empty where the event names none.
        base_sha: tip of the pull request's base.
        reason, why: for programs and for people; empty where all is well.
    """

    number: int | None
    head_sha: str
    base_sha: str
    reason: Reason = ""
    why: str = ""

    def or_error(self) -> Resolution:
        """Itself, where there is nothing against publishing.

        Raises:
            UntrustedInput: the run is not of our workflow.
            PullRequestMoved: the pull request is gone, closed, or moved on.
        """
        if self.reason == "wrong-workflow":
            raise UntrustedInput(self.why)
        if self.reason not in ("", "no-pull-request", "ambiguous"):
            raise PullRequestMoved(self.why)
        return self


def resolve(github: GitHub, event: Event, workflows: Sequence[str] = (WORKFLOW,)) -> Resolution:
    """The pull request that an event means.

    Args:
        github: with whom to speak.
        event: what happened.
        workflows: files, relative to the repository's root, whose runs count.
    """
    match event.kind:
        case "workflow_run":
            return _of_run(github, event, workflows)
        case "workflow_dispatch" if event.number is not None:
            return _of_number(github, event, event.number)
        case "pull_request":
            return Resolution(event.number, event.head_sha, event.base_sha)
        case "merge_group":
            return _none(event, "a merge group has no pull request of its own")
    return _none(event, "no pull request was named")


def current(github: GitHub, repository: str, number: int, head_sha: str) -> Pull:
    """The pull request as it is now. Raises PullRequestMoved where it is not open at `head_sha`."""
    pull = _pull(github, repository, number)
    if (against := _against(pull, repository, head_sha, fork_may_be_gone=True)) is not None:
        raise PullRequestMoved(against[1])
    return pull


Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], data: Any) -> Model:
    """An answer of GitHub as a record. Raises GitHubRefused where it does not fit."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise GitHubRefused(f"GitHub's answer is not a {model.__name__.lower()}: {where}: {first['msg']}") from None


def _of_run(github: GitHub, event: Event, workflows: Sequence[str]) -> Resolution:
    file = event.path.partition("@")[0]  # GitHub writes both `FILE` and `FILE@REF`
    if file not in workflows:
        why = f"the run is of {sanitise(event.path, 200) or 'an unnamed file'}, not of {' or '.join(workflows)}"
        return Resolution(None, event.head_sha, "", "wrong-workflow", why)
    if event.trigger != "pull_request":
        return _none(event, f"the run was started by {sanitise(event.trigger, 40)}, not by a pull request")
    if not event.head_repository:
        return Resolution(None, event.head_sha, "", "deleted-fork", "the fork that the run is about was deleted")
    owner = event.head_repository.partition("/")[0]
    listed = github.pages(f"/repos/{event.repository}/pulls", state="all", head=f"{owner}:{event.head_branch}")
    of_branch = [pull for pull in (checked(Pull, item) for item in listed) if _is_of_branch(pull, event)]
    at_commit = [pull for pull in of_branch if _against(pull, event.repository, event.head_sha) is None]
    if len(at_commit) == 1:
        return _confirmed(github, event, at_commit[0].number)
    if at_commit:
        names = " and ".join(f"#{pull.number}" for pull in at_commit)
        return Resolution(None, event.head_sha, "", "ambiguous", f"{names} are of the same branch and commit")
    return _why_none(of_branch, event)


def _is_of_branch(pull: Pull, event: Event) -> bool:
    """GitHub ignores a filter that it cannot read, so each pull request is looked at again."""
    return pull.head.ref == event.head_branch and (pull.head.repo is None or pull.head.is_of(event.head_repository))


def _why_none(of_branch: Sequence[Pull], event: Event) -> Resolution:
    """Why none of the pull requests of a branch is at the event's commit."""
    candidates = [pull for pull in of_branch if pull.head.sha == event.head_sha]
    candidates = candidates or [pull for pull in of_branch if pull.state == "open"]
    against = _against(candidates[-1], event.repository, event.head_sha) if candidates else None
    reason, why = against or ("not-found", f"no pull request has the head {event.head_sha[:7]}")
    return Resolution(None, event.head_sha, "", reason, why)


def _of_number(github: GitHub, event: Event, number: int) -> Resolution:
    try:
        pull = _pull(github, event.repository, number)
    except NotFound:
        return Resolution(None, event.head_sha, "", "not-found", f"there is no pull request #{number}")
    head = event.head_sha or pull.head.sha
    if (against := _against(pull, event.repository, head, fork_may_be_gone=True)) is not None:
        return Resolution(None, head, "", *against)
    return Resolution(number, head, pull.base.sha)


def _confirmed(github: GitHub, event: Event, number: int) -> Resolution:
    """A list may be a little old: the pull request itself decides."""
    pull = _pull(github, event.repository, number)
    if (against := _against(pull, event.repository, event.head_sha)) is not None:
        return Resolution(None, event.head_sha, "", *against)
    return Resolution(number, event.head_sha, pull.base.sha)


def _against(
    pull: Pull, repository: str, head_sha: str, *, fork_may_be_gone: bool = False
) -> tuple[Reason, str] | None:
    """What forbids to publish results of `head_sha` to a pull request; None where nothing does."""
    if not pull.base.is_of(repository):
        return "not-found", f"#{pull.number} is for another repository"
    if pull.state != "open":
        return "closed", f"#{pull.number} is closed"
    if pull.head.repo is None and not fork_may_be_gone:
        return "deleted-fork", f"the fork that #{pull.number} comes from was deleted"
    if pull.head.sha != head_sha:
        return "moved", f"#{pull.number} is at {pull.head.sha[:7]} by now, not at {head_sha[:7]}"
    return None


def _pull(github: GitHub, repository: str, number: int) -> Pull:
    return checked(Pull, github.get(f"/repos/{repository}/pulls/{number}"))


def _none(event: Event, why: str) -> Resolution:
    return Resolution(None, event.head_sha, event.base_sha, "no-pull-request", why)
