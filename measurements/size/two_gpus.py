"""The figures of a machine with two GPUs: `two-gpus`. How much sooner two are done, and whether one disturbs the other."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenbench.runner.machine.gpus import gpus
from measurements.figures import NS, Events, seconds, table, timed_launches
from measurements.instrument.instrument import Verbs
from measurements.instrument.launches import REPEAT_CASES, REPEAT_FROM_NS, REPEAT_MAX, Repeated, repeatability, run_cli
from measurements.parts import ROOT, fresh
from measurements.verdicts.on_gpu import HUNDRED

NEEDED = 2
RATIO_MAX = 0.6
LAUNCHES = 20  # of each case, quiet and beside a busy neighbour
COMPARE_LIMIT_S, RUN_LIMIT_S = 300, 150
STARTED_S = 120.0  # for the neighbour's first timed launch
STOPPED_S = 30.0
FLAGGED = ("regressed", "improved", "failed", "wrong")


def add_to(verbs: Verbs, common: argparse.ArgumentParser) -> None:
    """Add this module's subcommand to the grammar of scripts/prove."""
    verb = verbs.add_parser("two-gpus", parents=[common], help="two GPUs at once against one; needs both")
    verb.set_defaults(figure=two_gpus)
    verb.add_argument("--launches", type=int, default=LAUNCHES, help="of each case, quiet and disturbed")


def two_gpus(options: argparse.Namespace) -> bool:
    """True where two GPUs take at most 0.6 of the time, flag nothing, and launches repeat beside a busy neighbour."""
    found = gpus()
    if len(found) < NEEDED:
        raise SystemExit(f"error: this machine has {len(found)} GPUs (hint: a machine with two is needed)")
    out = options.out / "two-gpus"
    sooner = _sooner(out)
    return _undisturbed(out, [gpu.uuid for gpu in found[:NEEDED]], options.launches) and sooner


def _sooner(out: Path) -> bool:
    """A hundred cases against themselves, on one GPU and on two."""
    runs = {count: _compared(out / f"on-{count}", count) for count in (1, NEEDED)}
    measuring = {count: _end(events)["measuring_s"] for count, (events, _, _) in runs.items()}
    ratio = measuring[NEEDED] / measuring[1]
    flagged = {
        count: [row["case"] for row in rows if row["verdict"] in FLAGGED] for count, (_, rows, _) in runs.items()
    }
    parts = [_parts(events) for events, _, _ in runs.values()]
    table(
        ("a hundred cases against themselves", "one GPU", "two GPUs", "at most"),
        [
            ("measuring", *(seconds(value) for value in measuring.values()), ""),
            ("ratio", "", f"{ratio:.2f}", f"{RATIO_MAX:g}"),
            *((f"a launch: {part}", *(seconds(spent[part]) for spent in parts), "") for part in parts[0]),
            ("preparation", *(seconds(_end(events)["preparation_s"]) for events, _, _ in runs.values()), ""),
            ("whole command", *(seconds(wall) for _, _, wall in runs.values()), ""),
            ("rows", *(len(rows) for _, rows, _ in runs.values()), ""),
            ("flagged", *(len(names) for names in flagged.values()), "0"),
            ("GPUs that launches ran on", *(len(_uuids(events)) for events, _, _ in runs.values()), ""),
            ("cases that ran on both", "", len(_on_several(runs[NEEDED][0])), "0"),
        ],
    )
    for name in flagged[NEEDED]:
        print(f"flagged: `{name}`")
    events = runs[NEEDED][0]
    return (
        ratio <= RATIO_MAX and not any(flagged.values()) and len(_uuids(events)) == NEEDED and not _on_several(events)
    )


def _undisturbed(out: Path, uuids: Sequence[str], launches: int) -> bool:
    """How well launches repeat on one GPU while nothing runs on the other, and while it is busy."""
    words = ["run", *REPEAT_CASES, "--suite", "ops", "--in", ".", "--rounds", str(launches), "--gpu", uuids[0]]
    quiet = repeatability(run_cli(words, out / "quiet", RUN_LIMIT_S))
    with _neighbour(out / "neighbour", uuids[1]):
        busy = repeatability(run_cli(words, out / "busy", RUN_LIMIT_S))
    beside = {row.case: row for row in busy}
    pairs = [(row, beside[row.case]) for row in quiet if row.case in beside]
    table(
        ("case", "quiet, µs", "busy, µs", "change", "CV quiet", "CV busy"),
        [(f"`{a.case}`", *_times(a, b), f"{a.cv:.2%}", f"{b.cv:.2%}") for a, b in pairs],
    )
    judged = [b for _, b in pairs if b.location_ns >= REPEAT_FROM_NS]
    return len(judged) >= len(REPEAT_CASES) - 1 and all(row.cv <= REPEAT_MAX for row in judged)


def _times(quiet: Repeated, busy: Repeated) -> tuple[str, str, str]:
    change = busy.location_ns / quiet.location_ns - 1
    return f"{quiet.location_ns / 1e3:.2f}", f"{busy.location_ns / 1e3:.2f}", f"{change:+.2%}"


def _compared(folder: Path, count: int) -> tuple[Events, list[Mapping[str, Any]], float]:
    """A comparison of the hundred cases with themselves; its events, rows and wall time."""
    report = folder / "comparison.json"
    folder.parent.mkdir(parents=True, exist_ok=True)
    words = ["compare", ".", ".", "--cases", HUNDRED, "--suite", "hundred", "--seed", "1", "--gpus", str(count)]
    began = time.perf_counter()
    events = run_cli([*words, "--fail-on", "never", "--json", str(report)], folder, COMPARE_LIMIT_S)
    wall = time.perf_counter() - began
    rows: list[Mapping[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["rows"]
    return events, rows, wall


@contextlib.contextmanager
def _neighbour(folder: Path, uuid: str) -> Iterator[None]:
    """A comparison on another GPU, under way for as long as the context lasts."""
    results = fresh(folder) / "results.jsonl"
    words = ["compare", ".", ".", "--cases", HUNDRED, "--suite", "hundred", "--rounds", "200", "--gpu", uuid]
    command = [sys.executable, "-m", "evenbench", *words, "--output", str(results)]
    with (folder / "run.txt").open("wb") as log, subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log) as process:
        try:
            deadline = time.monotonic() + STARTED_S
            while not (results.exists() and '"kind":"timed"' in results.read_text(encoding="utf-8")):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"error: the neighbour did not start to measure (hint: see {folder}/run.txt)")
                time.sleep(0.5)
            yield
            if process.poll() is not None:
                raise SystemExit(f"error: the neighbour ended too early (hint: see {folder}/run.txt)")
        finally:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOPPED_S)
            process.kill()


def _parts(events: Events) -> Mapping[str, float]:
    """Where the wall time of a timed launch goes, in seconds; medians."""
    launches = timed_launches(events)
    sampling: dict[int, float] = dict.fromkeys((launch["launch"] for launch in launches), 0.0)
    for event in events:
        if event["event"] == "measurement":
            sampling[event["launch"]] += event["wall_ns"] / NS
    first = [launch["first_sample_ns"] / NS for launch in launches]
    rest = [
        launch["wall_ns"] / NS - began - sampling[launch["launch"]]
        for launch, began in zip(launches, first, strict=True)
    ]
    return {
        "to its first sample": statistics.median(first),
        "sampling": statistics.median(sampling.values()),
        "between cases, and its end": statistics.median(rest),
    }


def _end(events: Events) -> Mapping[str, Any]:
    return next(event for event in events if event["event"] == "end")


def _uuids(events: Events) -> set[str]:
    return {launch["uuid"] for launch in timed_launches(events)}


def _on_several(events: Events) -> list[str]:
    """The cases that were measured on more than one GPU."""
    launches = {event["launch"]: event["uuid"] for event in events if event["event"] == "launch"}
    places: dict[str, set[str]] = {}
    for event in events:
        if event["event"] == "measurement":
            places.setdefault(event["case"], set()).add(launches[event["launch"]])
    return [case for case, uuids in places.items() if len(uuids) > 1]
