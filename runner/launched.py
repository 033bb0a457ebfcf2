"""What one launch said of itself, and how it ended. What it sends is foreign: it is bounded, and believed in order only."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .launch import Message
from .records import LaunchEnd
from .records.fields import NAME_MAX, NS_MAX

PAUSED_MAX_S = 1e8  # three years
FACTS_MAX = 50  # of a launch's instrument, or of its device; it sends ten to twenty

Status: TypeAlias = Literal["ok", "crashed", "timeout", "interrupted"]


@dataclass
class Launched:
    """How one launch went, as far as what it says can be believed.

    Args:
        order: ids of its cases.
        began_ns: when it was started, of `time.monotonic_ns`.
    """

    order: Sequence[str]
    began_ns: int
    number: int = -1
    finished: list[str] = field(default_factory=list)
    status: Status = "interrupted"
    culprit: str | None = None  # the case under way
    detail: str = ""
    paused_s: float = 0.0
    untold: bool = False  # its warm parent died before it: its last words may be lost
    killed: bool = False  # from outside, as by a system whose memory is used up, perhaps by others
    first_sample_ns: int = 0
    telemetry: dict[str, float | str | None] = field(default_factory=dict)

    @property
    def doubtful(self) -> bool:
        """Whether the case under way need not be what it died of, or in."""
        return self.untold or self.killed or self.paused_s > 0

    @property
    def kind(self) -> Literal["crashed", "timeout"]:
        """Of what it cost."""
        return "timeout" if self.status == "timeout" else "crashed"

    def take(self, message: Message) -> bool:
        """Take note of what concerns the launch itself; false for a message about its cases."""
        match message["event"]:
            case "begin":
                self._begun(message.get("case"))
            case "finish":
                self._ended(message.get("case"))
            case "first_sample":
                self.first_sample_ns = _since(self.began_ns, message)
            case "telemetry":
                self.telemetry = bounded_facts(message.get("values"))
            case "exit":
                self.status = _status(message)
                self.detail = str(message.get("detail", ""))
                self.paused_s = _seconds(message.get("paused_s"))
                self.untold = message.get("untold") is True
                self.killed = message.get("killed") is True
            case event:
                return event in ("machine", "done")
        return True

    def _begun(self, case: object) -> None:
        """Believed of the next case in order: a case may speak for others."""
        done = len(self.finished)
        if self.culprit is None and done < len(self.order) and case == self.order[done]:
            self.culprit = self.order[done]

    def _ended(self, case: object) -> None:
        """Believed of the case under way."""
        if self.culprit is not None and case == self.culprit:
            self.finished.append(self.culprit)
            self.culprit = None

    def end(self) -> LaunchEnd:
        """The `launch_end` line."""
        return LaunchEnd(
            launch=self.number,
            status=self.status,
            wall_ns=time.monotonic_ns() - self.began_ns,
            first_sample_ns=self.first_sample_ns,
            paused_s=self.paused_s,
            telemetry=self.telemetry,
        )

    def what_happened(self, side: str) -> str:
        """Why it gave nothing for a case, in a line."""
        if self.status == "ok":
            return f"its launch ended before it on {side}"
        if self.paused_s:
            return f"the launch stood still for {self.paused_s:.0f} s and died on {side}: {self.detail}"
        if self.kind == "timeout":
            return f"{self.detail or 'no progress'} on {side} (hint: raise timeout_s if the case may take that long)"
        return f"the launch died on {side}: {self.detail or 'no reason given'}"


def bounded_facts(found: object) -> dict[str, float | str | None]:
    """What a launch says of its instrument or device, as far as a record can hold it: it is foreign."""
    if not isinstance(found, dict):
        return {}
    kept: dict[str, float | str | None] = {}
    for name, value in list(found.items())[:FACTS_MAX]:
        if isinstance(value, str):
            kept[_clean(name)] = _clean(value)
        elif isinstance(value, int | float) and not isinstance(value, bool) and -NS_MAX <= value <= NS_MAX:
            kept[_clean(name)] = value
        elif value is None:
            kept[_clean(name)] = None
    return kept


def _clean(text: str) -> str:
    """Bounded, and without the halves of characters that JSON can smuggle in and no file can hold."""
    return text[:NAME_MAX].encode("utf-8", "replace").decode()


def _since(began: int, message: Message) -> int:
    """Nanoseconds from the launch's start to a moment that it reports; 0 for a moment that cannot be."""
    at = message.get("at_ns")
    return at - began if isinstance(at, int) and began <= at <= time.monotonic_ns() else 0


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= PAUSED_MAX_S else 0.0


def _status(message: Message) -> Status:
    found = message.get("status")
    return found if found in ("ok", "timeout", "interrupted") else "crashed"
