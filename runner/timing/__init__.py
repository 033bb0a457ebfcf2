"""One measurement, and one module an instrument.

`protocol` is the measurement, pure over a `Timer`: calibrate, warm up, sample, stop (`precision` says when). `select`
chooses the timer: `cupti`, `events` or `host`. `cache` is the cold-cache step before each iteration, `cold_probe` shows
that it works, and `no_gc` keeps garbage collection out of samples.
"""

from __future__ import annotations

from .cache import make_sweep
from .protocol import Measured, Segment, Timer, measure, merge
from .select import choose_timer, make_timer

__all__ = ["Measured", "Segment", "Timer", "choose_timer", "make_sweep", "make_timer", "measure", "merge"]
