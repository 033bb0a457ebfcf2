"""A clock that only sleeping moves."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Clock:
    """Seconds since 1970, and how long each sleep was."""

    now: float = 1_764_000_000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
