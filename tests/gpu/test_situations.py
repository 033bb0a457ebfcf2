"""The eight situations of docs/timing.md in which the method must change, each through the whole of `evenbench run`.

All cases of `situations/` are measured once; every test reads in the results what became of its own.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from evenbench.reports.compare.report import measured
from evenbench.reports.load.packed import Sampled
from evenbench.reports.load.results import Results, load_file
from evenbench.reports.rows.outcome import MeasuredRow

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]
RUN = (
    "run",
    "**",
    "--fail-on",
    "never",  # some of its cases fail on purpose
    "--measure-ms",
    "30",
    "--warmup-ms",
    "10",
    "--ignore-unfit",
    "--output",
)  # these tests use the GPU, too
PATIENCE_S = 240.0
OVERSTATED = 100  # as in the cases


class Ran:
    """What a run left behind."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.rows = {(row.case, row.implementation): row for row in measured(results).rows}

    def row(self, case: str, implementation: str = "main") -> MeasuredRow:
        return self.rows[case, implementation]

    def record(self, case: str, implementation: str = "main") -> Sampled:
        """The measurement of a case that was measured."""
        assert self.row(case, implementation).status == "ok", self.row(case, implementation).reason
        (placed,) = self.results.measurements[case, implementation]
        return placed.record

    def busy(self, case: str, implementation: str = "main") -> float:
        return float(statistics.median(self.record(case, implementation).device_busy_ns))

    def kernels(self, case: str, implementation: str = "main") -> set[int]:
        return set(self.record(case, implementation).n_kernels or ())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("situations")
    shutil.copytree(ROOT / "tests/gpu/situations", root / "cases", ignore=shutil.ignore_patterns("__pycache__"))
    temporary = root / "tmp"
    temporary.mkdir()
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "evenbench", *RUN, str(root / "results.jsonl")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Ran(load_file(root / "results.jsonl"))


def test_autograd_launches_from_a_thread_of_its_own(ran: Ran) -> None:
    plain = ran.row("autograd/plain")
    assert plain.status == "failed"
    assert plain.reason.startswith("attribution: ")
    assert "backward_of(out)" in plain.reason
    assert ran.kernels("autograd/node") == {1}
    refused = ran.row("autograd/refused")
    assert refused.status == "failed"
    assert "set_multithreading_enabled(False)" in refused.reason
    assert min(ran.kernels("autograd/chain")) >= 2


def test_kernels_of_another_thread_carry_no_id(ran: Ran) -> None:
    other = ran.row("threads/other")
    assert (other.status, other.reason.partition(": ")[0]) == ("failed", "attribution")
    assert "launch on the thread that makes the call" in other.reason
    assert ran.kernels("threads/own") == {1}


def test_ids_of_kind_custom0_are_taken_and_custom1_is_free(ran: Ran) -> None:
    taken = ran.row("ids/custom0")
    assert (taken.status, taken.reason.partition(": ")[0]) == ("failed", "attribution")
    assert "CUSTOM1 and CUSTOM2 are free" in taken.reason
    assert ran.kernels("ids/custom1") == {1}


def test_a_copy_counts_only_where_the_case_says_so(ran: Ran) -> None:
    alone = ran.row("copies/alone")
    assert alone.status == "failed"
    assert "count_copies=True" in alone.reason
    left_out = ran.record("copies/left_out")
    assert min(left_out.uncounted_copy_ns) > 0
    assert (
        list(ran.record("copies/counted").uncounted_copy_ns) == []
    )  # of a loaded record it may be a tuple or an array
    assert ran.busy("copies/counted") > 1.2 * ran.busy("copies/left_out")


def test_a_call_that_overwrites_what_it_reads_needs_a_reset(ran: Ran) -> None:
    declared = ran.row("in_place/declared")
    assert declared.status == "wrong"
    assert "changed its inputs" in declared.reason
    assert "reset=" in declared.reason
    assert ran.row("in_place/undeclared").status == "wrong"
    assert ran.row("in_place/reset").check == "passed"
    assert ran.kernels("in_place/reset") == {1}  # the copy of reset is none of the call's
    assert list(ran.record("in_place/reset").uncounted_copy_ns) == []


def test_the_gaps_between_the_kernels_of_a_call_are_the_hosts(ran: Ran) -> None:
    prompt, delayed = ran.record("several/prompt"), ran.record("several/delayed")
    assert ran.kernels("several/prompt") == ran.kernels("several/delayed") == {3}
    assert statistics.median(delayed.latency_ns) > 10 * statistics.median(prompt.latency_ns)
    assert ran.busy("several/delayed") == pytest.approx(ran.busy("several/prompt"), rel=0.05)


def test_a_long_call_keeps_ten_samples_and_says_so(ran: Ran) -> None:
    plain, asked = ran.record("long/plain"), ran.record("long/asked")
    assert min(plain.device_busy_ns) > 10_000_000
    assert (len(plain.device_busy_ns), plain.coarse) == (10, True)
    assert (len(asked.device_busy_ns), asked.stop) == (30, "count")


def test_what_is_written_by_hand_is_checked_by_nothing_but_a_reference_and_the_hardware(ran: Ran) -> None:
    half = ran.row("bare/half")
    assert (half.status, half.check) == ("ok", "unchecked")
    assert ran.busy("bare/half") < 0.8 * ran.busy("bare/checked")
    caught = ran.row("bare/half_checked")
    assert caught.status == "wrong"
    assert "outputs left (partly) unwritten: out" in caught.reason
    honest, overstated = ran.row("bare/checked").times, ran.row("bare/overstated").times
    assert honest is not None
    assert overstated is not None
    assert overstated.ns == pytest.approx(honest.ns, rel=0.1)
    assert (honest.bandwidth_tbs or 0) < 20 < (overstated.bandwidth_tbs or 0)  # no memory moves 20 TB/s
    assert (overstated.bandwidth_tbs or 0) == pytest.approx(OVERSTATED * (honest.bandwidth_tbs or 0), rel=0.1)


def test_a_baseline_pays_for_its_own_conversion(ran: Ran) -> None:
    assert ran.kernels("baseline/converts_outside", "library") == {1}
    assert ran.kernels("baseline/converts_inside", "library") == {2}
    inside = ran.busy("baseline/converts_inside", "library")
    assert inside > 1.1 * ran.busy("baseline/converts_outside", "library")
    assert (ran.row("baseline/converts_inside", "library").ratio or 0) == 1
    assert 0 < (ran.row("baseline/converts_inside", "ours").ratio or 0) < 1


def test_a_missing_baseline_fails_its_case_and_another_is_skipped(ran: Ran) -> None:
    fails = ran.row("baseline/missing", "library")
    assert fails.status == "failed"
    assert "the baseline 'library' cannot be made" in fails.reason
    skipped = ran.row("baseline/other_missing", "library")
    assert (skipped.status, "library_of_nobody" in skipped.reason) == ("skipped", True)
    assert ran.row("baseline/other_missing", "ours").status == "ok"
