"""The plan of a run: rounds, the order of sides in a round, the order of cases, shards. Pure and seeded.

Every order follows from the seed alone, so the plan can be told again from the header of a results file.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..errors import ConfigError
from .balance import Share, shares

SEED_BITS = 48  # fits a float exactly, so that no JSON reader rounds it
SHARDS_MAX = 1_000  # more machines than anyone has
SHARES_MAX = 256  # jobs of one matrix on GitHub; their shares take a fifth of what a workflow's output may


@dataclass(frozen=True)
class Plan:
    """What is launched when.

    Args:
        sides: names of the sides, ``base`` first.
        seed: everything drawn in this run is drawn from it.
        rounds: rounds to make.
        shard: which part of the cases this run takes, ``(index, count)``.
        share: the cases of this shard, where the plan is one by durations; else seed and id decide.
    """

    sides: tuple[str, ...]
    seed: int
    rounds: int
    shard: tuple[int, int] = (0, 1)
    share: Share | None = None

    def side_order(self, round_index: int) -> tuple[str, ...]:
        """The sides in the order of launching: drawn for each pair of rounds, mirrored in the second of the pair.

        With two sides this gives base head head base or its mirror, so that slow drift cancels within the pair.
        """
        first = list(self.sides)
        self._random("sides", round_index // 2).shuffle(first)
        return tuple(first if round_index % 2 == 0 else reversed(first))

    def case_order(self, round_index: int, common: Iterable[str], extra: Iterable[str] = ()) -> list[str]:
        """The cases in the order of measuring, the same for all sides of a round; what one side lacks comes last.

        Equal allocation sequences give equal buffer addresses, so placement cancels within a round.
        """
        shared, rest = sorted(common), sorted(extra)
        self._random("cases", round_index).shuffle(shared)
        self._random("extra", round_index).shuffle(rest)
        return shared + rest

    def mirrored(self, round_index: int) -> bool:
        """Whether implementations run C B A A B C instead of A B C C B A in this round."""
        return round_index % 2 == 1

    def takes(self, case_id: str) -> bool:
        """Whether this shard measures the case."""
        if self.share is not None:
            return self.share.takes(case_id, self.seed)
        return shard_of(case_id, self.shard[1], self.seed) == self.shard[0]

    def _random(self, what: str, number: int) -> random.Random:
        digest = hashlib.sha256(f"{self.seed}/{what}/{number}".encode()).digest()
        return random.Random(int.from_bytes(digest[:8], "big"))


def second_seed(seed: int) -> int:
    """The seed of the second run that confirms one of this seed: another order of everything, and drawn again alike."""
    digest = hashlib.sha256(f"{seed}/confirm".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (1 << SEED_BITS)


def shard_of(case_id: str, count: int, seed: int) -> int:
    """The shard that measures a case: the same on every machine, without knowing the other cases."""
    digest = hashlib.sha256(f"{seed}/shard/{case_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % count


def shard_matrix(count: int, seed: int, durations: Mapping[str, float] | None = None) -> list[dict[str, int | str]]:
    """The shards of a run, for a workflow's matrix: index, count and the common seed of each; its share of the cases.

    Args:
        durations: what a launch takes for each case that is known; without any, seed and id alone choose the shard.

    Raises:
        ConfigError: a count that is not 1 to `SHARDS_MAX`, or with durations to `SHARES_MAX`.
    """
    most = SHARES_MAX if durations else SHARDS_MAX
    if not 1 <= count <= most:
        raise ConfigError(f"--shards {count}: must be 1 to {most}")
    matrix: list[dict[str, int | str]] = [{"index": index, "count": count, "seed": seed} for index in range(count)]
    if not durations or count == 1:
        return matrix
    return [entry | {"share": share.word} for entry, share in zip(matrix, shares(durations, count, seed), strict=True)]
