"""A change planted on purpose: which case is meant, and whether it could be found at all. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..config import RunSettings, select
from ..errors import UsageError
from ..records import PlantRecord, SideName
from ..records.fields import PLANT_MAX
from .selection import PATTERN_HINT, SideCases

FRACTION = 0.05  # what a nightly run plants unless told otherwise
NAMED = 3  # cases named where several match
WITH_FRACTION = re.compile(r"(.+)=([^=\]]*)")  # the = of an id stand in its brackets


def plant_of(text: str) -> PlantRecord:
    """What ``--plant PATTERN[=FRACTION]`` asks for. Raises UsageError."""
    match = WITH_FRACTION.fullmatch(text)
    pattern, written = match.groups() if match else (text, str(FRACTION))
    if not pattern.strip() or pattern.startswith("="):
        raise UsageError(f"--plant {text!r}: names no case", "--plant 'norm/rms*=0.05' slows that one by 5 %")
    try:
        return PlantRecord(case=pattern, fraction=float(written))
    except ValueError:  # no number, or out of its bounds
        raise UsageError(
            f"--plant {text}: {written!r} is no fraction over 0 to {PLANT_MAX:g}", "=0.05 stands for 5 %"
        ) from None


def planted_case(
    plant: PlantRecord, found: Mapping[SideName, SideCases], settings: RunSettings, patterns: Sequence[str]
) -> PlantRecord:
    """The same with the id of the case that head runs slower; of a sharded run, the same in all shards.

    Raises:
        UsageError: not exactly one of the cases that are measured matches, or the change is too small to be called.
    """
    ids = [
        case_id
        for case_id, point in found["head"].points.items()
        if select((plant.case,), case_id, point.tags)
        and select(settings.include, case_id, point.tags)
        and (not patterns or select(patterns, case_id, point.tags))
    ]
    if len(ids) != 1:
        named = f" ({', '.join(ids[:NAMED])}{', …' if len(ids) > NAMED else ''})" if ids else ""
        raise UsageError(
            f"--plant {plant.case}: matches {len(ids)} of the cases that head would run{named}, not one", PATTERN_HINT
        )
    least = settings.min_effect_for(ids[0])
    if plant.fraction <= least:
        raise UsageError(
            f"--plant {plant.case}: a change of {plant.fraction:g} could not be found under min_effect {least:g}",
            "plant a larger one with =FRACTION, or lower --min-effect",
        )
    return plant.model_copy(update={"case": ids[0]})


def slow_down(plant: PlantRecord | None, side: SideName, case_id: str) -> dict[str, Any]:
    """What a timed launch must be told of it, beside all else about a case: head, and one case, alone are slowed."""
    return {"plant": plant.fraction} if plant and side == "head" and case_id == plant.case else {}
