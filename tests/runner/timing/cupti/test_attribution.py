"""Records to samples: what belongs to which iteration, what is rejected, what is an error."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbench.runner.errors import AttributionForged, NoDeviceWork, OffThreadLaunch, RecordsLost
from evenbench.runner.timing.cupti.attribution import Iteration, Kernel, Records, attribute, tick_of, union_length

DATA = Path(__file__).parents[3] / "data"

WINDOW = (100_000, 900_000)
PREPARED = 10**9  # later than every launch built here
ONE = (1, 1, 1)

intervals = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12
)


@given(intervals)
def test_the_union_counts_every_covered_nanosecond_once(spans: list[tuple[int, int]]) -> None:
    covered = {ns for start, end in spans for ns in range(start, end)}
    assert union_length(spans) == len(covered)


@given(intervals, st.randoms())
def test_the_union_does_not_depend_on_order_or_repetition(spans: list[tuple[int, int]], rng: random.Random) -> None:
    shuffled = [*spans, *spans[:3]]
    rng.shuffle(shuffled)
    assert union_length(shuffled) == union_length(spans)


@given(intervals)
def test_the_union_lies_between_the_longest_interval_and_the_sum(spans: list[tuple[int, int]]) -> None:
    lengths = [end - start for start, end in spans]
    assert max(lengths, default=0) <= union_length(spans) <= sum(lengths)


class Block:
    """Builds the records of one block: iteration i runs under ids 10i+1 (run), +2 (prepare), +3 (guard)."""

    def __init__(self, n: int = 2) -> None:
        self.iterations = [Iteration(i, 10 * i + 1, 10 * i + 2, 10 * i + 3, PREPARED) for i in range(n)]
        self.records = Records()
        self.correlation = 0

    def launch(self, external: int | None, *, must_follow: bool = True, ok: bool = True) -> int:
        self.correlation += 1
        begin = 1_000 * self.correlation
        if external is not None:
            self.records.external.append((self.correlation, external))
        if ok:
            self.records.launches.append((self.correlation, must_follow, begin, begin + 500, 7))
        return self.correlation

    def replay(self, external: int, start: int, nodes: list[int], graph: int = 5) -> None:
        correlation = self.launch(external)
        for n, node in enumerate(nodes):
            begin = start + 100 * n
            self.records.kernels.append(kernel_record(correlation, begin, begin + 50, graph=graph, node=node))

    def kernel(self, external: int | None, start: int, end: int, name: str = "k") -> None:
        correlation = self.launch(external)
        self.records.kernels.append(kernel_record(correlation, start, end, name))

    def copy(self, external: int | None, start: int, end: int) -> None:
        self.records.copies.append((self.launch(external, must_follow=False), start, end))


def kernel_record(correlation: int, start: int, end: int, name: str = "k", *, graph: int = 0, node: int = 0) -> Kernel:
    return (correlation, start, end, name, (4, 1, 1), (128, 1, 1), 16, 1024, graph, node)


def two_iterations() -> Block:
    block = Block()
    block.kernel(2, 100_100, 100_150, "sweep")
    block.kernel(1, 100_200, 100_300)
    block.kernel(12, 100_400, 100_450, "sweep")
    block.kernel(11, 100_500, 100_620)
    return block


def test_overlap_counts_once_gaps_do_not_count_and_latency_spans_both() -> None:
    block = Block(1)
    block.kernel(1, 100_000, 100_100, "a")
    block.kernel(1, 100_050, 100_200, "b")
    block.kernel(1, 100_300, 100_350, "a")
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert segment.device_busy_ns == [250]
    assert segment.latency_ns == [350]
    assert segment.n_kernels == [3]
    assert segment.uncounted_copy_ns == [0]
    assert segment.kernels == [
        {"name": n, "grid": [4, 1, 1], "block": [128, 1, 1], "registers": 16, "shared_memory": 1024} | times
        for n, times in (("a", {"count": 2, "median_ns": 50}), ("b", {"count": 1, "median_ns": 150}))
    ]


def test_samples_come_in_order_without_preparation() -> None:
    block = two_iterations()
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert (segment.indices, segment.device_busy_ns, segment.n_kernels) == ([0, 1], [100, 120], [1, 1])
    assert [kernel["name"] for kernel in segment.kernels] == ["k"]
    assert segment.rejected == []


def test_the_order_of_records_does_not_matter() -> None:
    block = two_iterations()
    expected = attribute(block.records, block.iterations, WINDOW, False)
    for records in (block.records.kernels, block.records.external, block.records.launches):
        records.reverse()
    assert attribute(block.records, block.iterations, WINDOW, False) == expected


def test_one_launch_may_replay_many_kernels() -> None:
    block = Block(1)
    block.replay(1, 100_000, [1, 2, 3, 4, 5])
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert (segment.n_kernels, segment.device_busy_ns, segment.latency_ns) == ([5], [250], [450])
    assert [kernel["count"] for kernel in segment.kernels] == [5]


def replays(*nodes: list[int]) -> Block:
    block = Block(len(nodes))
    for i, present in enumerate(nodes):
        block.replay(10 * i + 1, 100_000 + 10_000 * i, present)
    return block


def test_a_replay_that_lacks_a_node_of_all_others_is_rejected() -> None:
    block = replays([1, 2, 3], [1, 3], [1, 2, 3], [1, 2, 3])
    block.replay(31, 150_000, [7], graph=6)  # another graph has nodes of its own
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert segment.indices == [0, 2, 3]
    assert segment.rejected == [(1, "1 node of a replayed graph has no kernel record")]
    assert segment.n_kernels == [3, 3, 4]


def test_nodes_that_run_only_now_and_then_are_conditional_not_missing() -> None:
    block = replays([1, 2], [1], [1, 2], [1], [1, 2])
    assert attribute(block.records, block.iterations, WINDOW, False).n_kernels == [2, 1, 2, 1, 2]


def test_two_replays_are_too_few_to_say_which_lacks_a_node() -> None:
    block = replays([1, 2], [1])
    assert attribute(block.records, block.iterations, WINDOW, False).n_kernels == [2, 1]


def test_a_replay_of_copies_alone_is_recorded() -> None:
    block = Block(1)
    block.kernel(1, 100_000, 100_100)
    block.records.copies.append((block.launch(1), 100_200, 100_300))
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert (segment.rejected, segment.uncounted_copy_ns) == ([], [100])


def test_a_launch_under_preparations_id_after_preparation_is_forged() -> None:
    block = two_iterations()
    last_of_preparation = max(launch[2] for launch in block.records.launches if launch[0] in (1, 3))
    block.iterations = [it._replace(prepared=last_of_preparation) for it in block.iterations]
    assert attribute(block.records, block.iterations, WINDOW, False).indices == [0, 1]
    block.iterations[1] = block.iterations[1]._replace(prepared=last_of_preparation - 1)
    with pytest.raises(AttributionForged, match="iteration 1 .*after preparation ended"):
        attribute(block.records, block.iterations, WINDOW, False)


def test_a_kernel_of_preparation_that_no_call_launched_is_rejected() -> None:
    block = two_iterations()
    block.records.launches = [launch for launch in block.records.launches if launch[0] != 1]
    assert attribute(block.records, block.iterations, WINDOW, False).rejected == [
        (0, "preparation has 1 kernel that no traced call launched")
    ]


def test_copies_are_kept_apart_unless_they_count() -> None:
    block = Block(1)
    block.kernel(1, 100_000, 100_100)
    block.copy(1, 100_150, 100_250)
    block.copy(1, 100_200, 100_300)
    apart = attribute(block.records, block.iterations, WINDOW, False)
    assert (apart.device_busy_ns, apart.latency_ns, apart.uncounted_copy_ns) == ([100], [100], [150])
    counted = attribute(block.records, block.iterations, WINDOW, True)
    assert (counted.device_busy_ns, counted.latency_ns, counted.uncounted_copy_ns) == ([250], [300], [0])
    assert counted.n_kernels == [1]


def test_a_call_of_copies_alone_needs_count_copies() -> None:
    block = Block(1)
    block.copy(1, 100_150, 100_250)
    with pytest.raises(NoDeviceWork, match=r"iteration 0 does nothing .* but copy .*count_copies=True"):
        attribute(block.records, block.iterations, WINDOW, False)
    counted = attribute(block.records, block.iterations, WINDOW, True)
    assert (counted.device_busy_ns, counted.n_kernels, counted.kernels) == ([100], [0], [])


def test_an_iteration_that_launched_nothing_is_an_error() -> None:
    block = Block(2)
    block.kernel(1, 100_000, 100_100)
    with pytest.raises(NoDeviceWork, match="iteration 1 launched nothing"):
        attribute(block.records, block.iterations, WINDOW, False)


def test_a_kernel_without_an_id_is_named() -> None:
    block = two_iterations()
    block.kernel(None, 100_310, 100_320, "backward_kernel")
    with pytest.raises(OffThreadLaunch, match=r"kernel backward_kernel .*backward_of\(out\)"):
        attribute(block.records, block.iterations, WINDOW, False)


def test_a_copy_without_an_id_matters_only_where_copies_count() -> None:
    block = two_iterations()
    block.copy(None, 100_310, 100_320)
    assert attribute(block.records, block.iterations, WINDOW, False).indices == [0, 1]
    with pytest.raises(OffThreadLaunch, match="a copy carries no"):
        attribute(block.records, block.iterations, WINDOW, True)


@pytest.mark.parametrize(("external", "message"), [(99, "pushed itself"), (3, "had popped")])
def test_work_under_a_foreign_id_or_the_guard_is_forged(external: int, message: str) -> None:
    block = two_iterations()
    block.kernel(external, 100_310, 100_320)
    with pytest.raises(AttributionForged, match=message):
        attribute(block.records, block.iterations, WINDOW, False)


def test_lost_records_give_no_sample_and_no_other_error() -> None:
    block = Block(1)
    block.kernel(None, 100_310, 100_320)
    block.records.lost = 4
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert (segment.lost, segment.indices, segment.rejected) == (4, [], [])


@pytest.mark.parametrize("external", [None, 2])
def test_without_a_drop_counter_missing_work_may_be_lost_work(external: int | None) -> None:
    block = Block(1)
    block.kernel(external, 100_310, 100_320)
    block.records.lost = None
    with pytest.raises(RecordsLost, match="losses cannot be excluded"):
        attribute(block.records, block.iterations, WINDOW, False)


def test_without_a_drop_counter_a_missing_record_may_be_a_lost_one() -> None:
    block = two_iterations()
    block.launch(11)
    block.records.lost = None
    with pytest.raises(RecordsLost, match="iteration 1: 1 of 2 launches .*losses cannot be excluded"):
        attribute(block.records, block.iterations, WINDOW, False)


def test_without_a_drop_counter_whole_iterations_still_count() -> None:
    block = two_iterations()
    block.records.lost = None
    assert attribute(block.records, block.iterations, WINDOW, False).indices == [0, 1]


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        (0, 100_300, "no start"),
        (100_300, 100_200, "ends before it starts"),
        (100_200, 3_000_000_000, "outside the segment"),
        (1, 2, "outside the segment"),
        (100_200, 100_401, "after the next iteration began"),
        (100_140, 100_300, "preparation's work runs during the call"),
    ],
)
def test_a_reading_that_cannot_be_true_is_rejected(start: int, end: int, reason: str) -> None:
    block = Block()
    block.kernel(2, 100_100, 100_150)
    block.kernel(1, start, end)
    block.kernel(12, 100_400, 100_450)
    block.kernel(11, 100_500, 100_620)
    window = (1_050_000, 2_000_000) if start == 1 else WINDOW  # a slack of 1 ms between the clocks reaches 50,000
    segment = attribute(block.records, block.iterations, window, False)
    assert segment.indices == [1]
    assert [i for i, _ in segment.rejected] == [0]
    assert reason in segment.rejected[0][1]
    assert segment.kernels[0]["count"] == 1


@pytest.mark.parametrize("under", [11, 12])
def test_a_launch_without_a_kernel_record_is_rejected(under: int) -> None:
    block = two_iterations()
    block.launch(under)
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert segment.indices == [0]
    assert segment.rejected == [(1, "1 of 2 launches has no kernel record")]


def test_launches_whose_records_are_all_missing_are_rejected_not_called_idle() -> None:
    block = two_iterations()
    block.records.kernels.pop()
    assert attribute(block.records, block.iterations, WINDOW, False).rejected == [
        (1, "1 of 1 launch has no kernel record")
    ]


def test_a_driver_call_inside_a_runtime_call_needs_no_record() -> None:
    block = Block(1)
    block.kernel(1, 100_000, 100_100)
    correlation, _, start, end, thread = block.records.launches[0]
    inner = correlation + 1
    block.records.external.append((inner, 1))
    block.records.launches.append((inner, True, start + 1, end - 1, thread))
    assert attribute(block.records, block.iterations, WINDOW, False).indices == [0]
    block.records.launches[-1] = (inner, True, start + 1, end - 1, thread + 1)
    assert attribute(block.records, block.iterations, WINDOW, False).indices == []


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100)), min_size=1, max_size=4), min_size=1, max_size=6
    )
)
def test_every_iteration_keeps_exactly_its_own_kernels(plan: list[list[tuple[int, int]]]) -> None:
    block = Block(len(plan))
    spans = [[(100_000 + 1_000 * i + s, 100_000 + 1_000 * i + s + d) for s, d in ks] for i, ks in enumerate(plan)]
    for i, kernels in enumerate(spans):
        for start, end in kernels:
            block.kernel(10 * i + 1, start, end)
    segment = attribute(block.records, block.iterations, WINDOW, False)
    assert segment.device_busy_ns == [union_length(kernels) for kernels in spans]
    assert segment.latency_ns == [max(e for _, e in ks) - min(s for s, _ in ks) for ks in spans]
    assert all(busy <= latency for busy, latency in zip(segment.device_busy_ns, segment.latency_ns, strict=True))
    assert segment.n_kernels == [len(kernels) for kernels in spans]


@pytest.mark.parametrize("tick", [1024, 64, 32, 8])
def test_the_tick_is_found_through_scatter(tick: int) -> None:
    rng = random.Random(1)
    # Odd multiples too, so that no coarser grid holds.
    durations = [tick * rng.randrange(10, 10**5) + rng.choice([-1, 0, 0, 1]) for _ in range(400)]
    assert tick_of(durations) == tick


def test_the_tick_of_real_launches_of_an_h200_is_found() -> None:
    """The tick that those who measured it wrote down; the samples of kernels alone, since a sum of three scatters more."""
    with gzip.open(DATA / "rounds_h200.json.gz", "rt") as file:
        data = json.load(file)
    for case in ("add_3", "rms_5", "tr_3", "ln_3"):
        assert tick_of(ns for made in data["rounds"] for side in made.values() for ns in side[case]) == data["tick_ns"]


def test_no_grid_and_too_few_durations_are_told_apart() -> None:
    rng = random.Random(1)
    assert tick_of(rng.randrange(10**9) for _ in range(400)) == 1
    assert tick_of(32 * n for n in range(19)) is None
    assert tick_of([64] * 100) is None
