"""The instruments of one launch: timers and cache steps, each made once."""

from __future__ import annotations

import time

from ...errors import TimerUnavailable
from ...process.channel import Channel
from ...timing import cache, select
from ...timing.cupti import selftest
from ...timing.cupti.timer import OTHER_FIX
from ...timing.protocol import Timer


class Instruments:
    """Makes timers and cache steps on first use and keeps them for the launch."""

    def __init__(self) -> None:
        self._timers: dict[tuple[str, int], Timer] = {}
        self._announced = False
        self._refused: TimerUnavailable | None = None
        self._tick_ns: int | None = None  # as the self-test found it
        self._steps: dict[tuple[str, str], cache.CacheStep] = {}

    def announce_first_sample(self, channel: Channel) -> None:
        """Say, once a launch and just before it, when its first sample begins: on the clock that processes share."""
        if not self._announced:
            self._announced = True
            channel.send({"event": "first_sample", "at_ns": time.monotonic_ns()})

    def prove_cupti(self, *, thorough: bool) -> selftest.Facts:
        """Let the CUPTI timer prove itself, and return what it found. Its failure meets whoever asks for it later."""
        try:
            facts = selftest.verify() if thorough else selftest.canary()
        except TimerUnavailable as error:
            self._refused = error
        except Exception as error:  # noqa: BLE001 - such as no memory for a context: it fails cases, not the launch
            text = f"the self-test of CUPTI failed: {type(error).__name__}: {error}"
            self._refused = TimerUnavailable(text, OTHER_FIX)
        else:
            tick = facts.get("tick_ns")
            self._tick_ns = tick if isinstance(tick, int) else None
            return facts
        return {"timer": "cupti", "error": str(self._refused)}

    def refuse_unproven(self) -> None:
        """Raises the error with which the CUPTI timer failed to prove itself, if it did."""
        if self._refused is not None:
            raise TimerUnavailable(self._refused.message, self._refused.hint)

    def timer(self, name: str, batch: int) -> Timer:
        """The timer of that name; `batch` calls an iteration, where it is the host's."""
        if name == "cupti":
            self.refuse_unproven()
        if (name, batch) not in self._timers:
            timer = select.make_timer(name, batch=batch)
            if name == "cupti" and self._tick_ns is not None:
                timer.tick_ns = self._tick_ns
            self._timers[name, batch] = timer
        return self._timers[name, batch]

    def cache_step(self, wanted: str, device: str) -> cache.CacheStep:
        """The cache step (`cold` or `warm`) for a device."""
        if (wanted, device) not in self._steps:
            self._steps[wanted, device] = cache.make_sweep(wanted, device)
        return self._steps[wanted, device]
