"""Cases spread over machines, or over the GPUs of one, so that all are done at about the same time. Pure.

Shards do not know each other, and a plan needs no cases: every id falls into one of `BUCKETS` buckets, whoever looks,
and a plan deals buckets. Those of cases whose durations are known go by longest processing time first (R. L. Graham,
Bounds on Multiprocessing Timing Anomalies, 1969); the others are dealt out evenly. So each case has exactly one shard,
a shard's part has one length whatever the number of cases, and new cases have their place too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import heapq
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..errors import UsageError

BUCKETS = 4_096  # of 100 cases one pair shares one; a part takes 709 characters, and a workflow's output 1 MiB in all
PLAN_DIGITS = 16  # hexadecimal, of a plan's id
CHECK_DIGITS = 8  # hexadecimal, over a share's word
HINT = "take it as evenbench plan printed it"


@dataclass(frozen=True)
class Share:
    """What a plan by durations gives one shard.

    Attributes:
        plan: id of the plan, the same for all its shards: a hash over seed and dealt buckets.
        buckets: those whose cases the shard measures.
    """

    plan: str
    buckets: frozenset[int]

    def takes(self, case_id: str, seed: int) -> bool:
        """Whether the shard measures the case."""
        return bucket_of(case_id, seed) in self.buckets

    @property
    def word(self) -> str:
        """As one word of a command line; `parse` reads it."""
        bits = sum(1 << bucket for bucket in self.buckets).to_bytes(BUCKETS // 8, "little")
        text = f"{self.plan}.{base64.urlsafe_b64encode(bits).decode().rstrip('=')}"
        return f"{text}.{_check(text)}"

    @classmethod
    def parse(cls, word: str) -> Share:
        """The share of a word. Raises UsageError for one that no plan printed."""
        told, _, check = word.rpartition(".")
        plan, _, text = told.partition(".")
        if check != _check(told):  # a letter that was lost on the way could leave a case to no shard
            raise UsageError("--share is no share of a plan", HINT)
        try:
            bits = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            number = int(plan, 16)
        except (ValueError, binascii.Error):
            raise UsageError("--share is no share of a plan", HINT) from None
        if len(bits) != BUCKETS // 8 or f"{number:0{PLAN_DIGITS}x}" != plan:
            raise UsageError("--share is no share of a plan", HINT)
        mask = int.from_bytes(bits, "little")
        return cls(plan, frozenset(bucket for bucket in range(BUCKETS) if mask >> bucket & 1))


def _check(text: str) -> str:
    """A few digits over a share's word."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:CHECK_DIGITS]


def bucket_of(case_id: str, seed: int) -> int:
    """The bucket of a case: the same on every machine."""
    digest = hashlib.sha256(f"{seed}/bucket/{case_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % BUCKETS


def shares(durations: Mapping[str, float], count: int, seed: int) -> list[Share]:
    """The shares of a plan of `count` shards; the same for the same durations, in whatever order.

    Args:
        durations: what a launch takes for each case that is known, in any unit.
    """
    loads: dict[int, float] = {}
    for case_id in sorted(durations):  # sums of floats depend on their order
        bucket = bucket_of(case_id, seed)
        loads[bucket] = loads.get(bucket, 0.0) + durations[case_id]
    dealt = dict(zip(loads, balanced([*loads.values()], count), strict=True))
    unknown = [bucket for bucket in range(BUCKETS) if bucket not in dealt]
    _random(seed, "unknown").shuffle(unknown)
    dealt |= {bucket: number % count for number, bucket in enumerate(unknown)}
    table = [dealt[bucket] for bucket in range(BUCKETS)]
    plan = hashlib.sha256(f"{seed}/{count}/{table}".encode()).hexdigest()[:PLAN_DIGITS]
    return [
        Share(plan, frozenset(bucket for bucket, shard in enumerate(table) if shard == index)) for index in range(count)
    ]


def parts_of(ids: Iterable[str], durations: Mapping[str, float], count: int) -> dict[str, int]:
    """The part, counted from 0, of each of these cases; one whose duration is not known counts as a middling one.

    It follows from the cases and durations alone: tomorrow's run of the same puts each where it was.
    """
    # By a hash: in the order of their names, neighbours of one parameter grid, which cost alike, would take turns.
    ordered = sorted(ids, key=lambda case_id: hashlib.sha256(case_id.encode()).digest())
    known = [durations[case_id] for case_id in ordered if case_id in durations]
    usual = median(known) if known else 1.0
    return dict(zip(ordered, balanced([durations.get(case_id, usual) for case_id in ordered], count), strict=True))


def balanced(loads: Sequence[float], count: int) -> list[int]:
    """The part of each load: the greatest first, each to the part that has least so far.

    No part is then heavier than total / count + (1 - 1 / count) × the greatest load.
    """
    parts = [(0.0, index) for index in range(count)]
    dealt = [0] * len(loads)
    for place in sorted(range(len(loads)), key=lambda place: (-loads[place], place)):
        load, index = parts[0]
        dealt[place] = index
        heapq.heapreplace(parts, (load + loads[place], index))
    return dealt


def _random(seed: int, what: str) -> random.Random:
    digest = hashlib.sha256(f"{seed}/{what}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))
