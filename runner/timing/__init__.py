"""Timing: one measurement (`protocol`), what its records mean (`attribution`), and one module per instrument."""

from __future__ import annotations

from .cache import make_sweep
from .protocol import Measured, Segment, Timer, measure, merge
from .select import choose_timer, make_timer

__all__ = ["Measured", "Segment", "Timer", "choose_timer", "make_sweep", "make_timer", "measure", "merge"]
