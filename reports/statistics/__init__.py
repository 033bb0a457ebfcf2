"""Launches of two sides → verdicts. Pure numbers: no records, no words, no I/O.

The statistical unit is the launch. `location` reduces the samples of a launch to one number; `paired` compares sides that
were measured in rounds, `unpaired` sides that were measured at different times; `decision` turns estimates and standard
errors into verdicts whose false alarms are bounded over the whole table; `failures` weighs launches that failed.

To judge rows of your own, with rounds of (base, head) samples in nanoseconds::

    from evenbench.reports.statistics import Row, Settings, judge

    row = Row("softmax", [([55_000, 55_032], [58_016, 58_048])] * 8, tick_ns=32, min_effect=0.005)
    [judgement] = judge([row], Settings())
    judgement.verdict, judgement.change, judgement.interval
"""

from __future__ import annotations

from .decision import Judgement, Settings
from .location import Row
from .paired import judge

__all__ = ["Judgement", "Row", "Settings", "judge"]
