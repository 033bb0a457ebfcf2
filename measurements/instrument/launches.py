"""Figures about whole launches, by the real command line: how well they repeat, how they start, who may make them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenbench.reports.statistics.location import grouped_median
from measurements.figures import NS, Events, change, read_events, seconds, table, timed_launches
from measurements.parts import ROOT, fresh, run_logged

REPEAT_CASES = (  # from 1 to some 200 µs on an H200
    "ops/add[dtype=float32,n=16384]",
    "ops/add[dtype=float32,n=1048576]",
    "ops/layer_norm[cols=1024,dtype=bfloat16,rows=4096]",
    "ops/silu_mul[dtype=float32,n=1048576]",
    "ops/rms_norm[cols=4096,dtype=bfloat16,rows=4096]",
    "ops/softmax[cols=4096,dtype=bfloat16,rows=4096]",
    "ops/sdpa[batch=8,dim=64,dtype=bfloat16,heads=16,length=1024]",
    "ops/matmul[dtype=bfloat16,n=4096]",
)
REPEAT_FROM_NS = 3_000  # shorter kernels last a few dozen ticks of the device's clock
REPEAT_MAX = 0.005
REPEAT_LIMIT_S = 150
START_CASE = REPEAT_CASES[1]
START_ROUNDS = 8
START_MAX_S = 0.6
START_LIMIT_S = 90

PLAIN_CASES = REPEAT_CASES[1:]
PLAIN_ROUNDS = 6  # fewer are not judged
PLAIN_LIMIT_S = 180
PRELOAD = "opens_the_device"
# Opening the device file is what tells a warm parent that a fork of it could not use CUDA. A CUDA context would do as
# well, but a second one, alive beside the launches, moves their figures.
PRELOADED: Mapping[str, str] = {
    "base": '"""Leaves the device alone, so that launches are forked."""\n',
    "head": '''"""Opens the device, so that launches start plainly."""

try:
    KEPT_OPEN = open("/dev/nvidiactl", "rb")
except OSError:
    import torch

    torch.cuda.init()
''',
}

USER = 10_001
UNPRIVILEGED_CASES = REPEAT_CASES[1:3]
UNPRIVILEGED_PARTS = ("cases", "evenbench", "pyproject.toml", "reports", "runner", "tests")
UNPRIVILEGED_TESTS = "tests/gpu/test_cupti.py"
UNPRIVILEGED_LIMIT_S = 120
WITHOUT_CAPABILITIES = 0
STATUS = ("Uid", "CapEff", "CapBnd", "NoNewPrivs")  # lines of /proc/self/status


@dataclass(frozen=True)
class Repeated:
    """One row of a run: its median location and the coefficient of variation of the locations of its launches."""

    case: str
    launches: int
    location_ns: float
    cv: float


def repeatability(events: Events) -> list[Repeated]:
    """The rows of a run in the order of their times."""
    locations: dict[str, list[float]] = {}
    for event in events:
        if event["event"] == "measurement":
            name = event["case"] + ("" if event["implementation"] == "main" else f" {event['implementation']}")
            locations.setdefault(name, []).append(grouped_median(event["device_busy_ns"], event["tick_ns"]))
    rows = [
        Repeated(name, len(values), statistics.median(values), statistics.stdev(values) / statistics.fmean(values))
        for name, values in locations.items()
        if len(values) > 1
    ]
    return sorted(rows, key=lambda row: row.location_ns)


def run_cli(arguments: Sequence[str], folder: Path, limit_s: float) -> Events:
    """`evenbench …` in this repository. Ends the process where it ends without results."""
    results = fresh(folder) / "results.jsonl"
    command = [sys.executable, "-m", "evenbench", *arguments, "--output", str(results)]
    if reason := run_logged(command, folder / "run.txt", limit_s):
        raise SystemExit(f"error: evenbench {' '.join(arguments)}: {reason}")
    return read_events(results)


def repeat(out: Path, launches: int) -> bool:
    """So many fresh launches of eight cases. True where none of 3 µs or more varies by over 0.5 %."""
    arguments = ["run", *REPEAT_CASES, "--suite", "ops", "--in", ".", "--rounds", str(launches)]
    rows = repeatability(run_cli(arguments, out / "repeat", REPEAT_LIMIT_S))
    table(
        ("case", "launches", "location, µs", "CV of the location"),
        [(f"`{row.case}`", row.launches, f"{row.location_ns / 1e3:.2f}", f"{row.cv:.2%}") for row in rows],
    )
    judged = [row for row in rows if row.location_ns >= REPEAT_FROM_NS]
    return len(judged) >= len(REPEAT_CASES) - 1 and all(row.cv <= REPEAT_MAX for row in judged)


def start(out: Path) -> tuple[str, bool]:
    """How long forked launches took to their first sample, in the run of `repeat` or a short one; and whether in time."""
    path = out / "repeat" / "results.jsonl"
    if path.is_file():
        events = read_events(path)
    else:
        arguments = ["run", START_CASE, "--suite", "ops", "--in", ".", "--rounds", str(START_ROUNDS)]
        events = run_cli(arguments, out / "start", START_LIMIT_S)
    spans = [launch["first_sample_ns"] / NS for launch in timed_launches(events) if launch["start"] == "fork"]
    if not spans:
        return "no forked launch", False
    median = statistics.median(spans)
    shown = f"{seconds(median)} (median of {len(spans)}; slowest {seconds(max(spans))})"
    return shown, median <= START_MAX_S


def forked_and_plain(out: Path) -> bool:
    """The same cases, forked on base and started plainly on head. True where no row is called regressed or improved."""
    folder = fresh(out / "forked-plain")
    for side, text in PRELOADED.items():
        root = folder / side
        shutil.copytree(ROOT / "cases", root / "cases", ignore=shutil.ignore_patterns("__pycache__"))
        with (root / "cases" / "suites.yaml").open("a", encoding="utf-8") as suites:
            suites.write(f"\npreload: [{PRELOAD}]\n")
        (root / f"{PRELOAD}.py").write_text(text, encoding="utf-8")
    report = folder / "comparison.json"
    arguments = ["compare", str(folder / "base"), str(folder / "head"), *PLAIN_CASES, "--suite", "ops"]
    arguments += ["--rounds", str(PLAIN_ROUNDS), "--json", str(report), "--fail-on", "never"]
    events = run_cli(arguments, folder / "run", PLAIN_LIMIT_S)
    starts = {launch["side"]: launch["start"] for launch in timed_launches(events)}
    rows = json.loads(report.read_text(encoding="utf-8"))["rows"]
    table(
        (f"case, {starts.get('base')} to {starts.get('head')}", "verdict", "change"),
        [(f"`{row['case']}`", row["verdict"], change(row)) for row in rows],
    )
    equal = bool(rows) and not any(row["verdict"] in ("regressed", "improved", "failed", "wrong") for row in rows)
    return equal and starts == {"base": "fork", "head": "plain"}


def unprivileged(out: Path) -> bool:
    """Doctor, two cases, a short comparison and the GPU tests as another user without capabilities.

    True where all went well; what `doctor --host` says of this machine is shown, and is no part of that.
    """
    folder = fresh(out / "unprivileged")
    drop = dropped_privileges()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as scratch:
        root, home = readable_copy(Path(scratch))
        environment = {**os.environ, "PYTHONPATH": without_root(root), "HOME": str(home), "TMPDIR": str(home)}
        status = ["grep", "-E", f"^({'|'.join(STATUS)}):", "/proc/self/status"]
        results = home / "results.jsonl"
        run = ["evenbench", "run", *UNPRIVILEGED_CASES, "--suite", "ops", "--in", ".", "--output", str(results)]
        compare = ["evenbench", "compare", str(root), str(root), *UNPRIVILEGED_CASES, "--suite", "ops"]
        compare += ["--rounds", str(PLAIN_ROUNDS), "--output", str(home / "comparison.jsonl")]
        tests = ["pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", UNPRIVILEGED_TESTS]
        steps = {
            "who": [*drop, *status],
            "evenbench doctor": [*drop, sys.executable, "-m", "evenbench", "doctor"],
            "evenbench doctor --host": [*drop, sys.executable, "-m", "evenbench", "doctor", "--host"],
            "evenbench run": [*drop, sys.executable, "-m", *run],
            "evenbench compare": [*drop, sys.executable, "-m", *compare],
            "GPU tests": [*drop, sys.executable, "-m", *tests],
        }
        reasons = {
            name: run_logged(
                step,
                folder / f"{name.replace(' ', '-')}.txt",
                UNPRIVILEGED_LIMIT_S,
                cwd=home if "doctor" in name else root,  # who looks for a place for results where he stands
                environment=environment,
            )
            for name, step in steps.items()
        }  # fmt: skip
        measured = repeat_rows(read_events(results)) if results.is_file() else "nothing"
    who = " ".join((folder / "who.txt").read_text(encoding="utf-8").split())
    last = {name: last_line(folder / f"{name.replace(' ', '-')}.txt") for name in steps}
    table(
        ("as an unprivileged user", "outcome"),
        [
            ("who", reasons["who"] or who),
            ("evenbench run", reasons["evenbench run"] or measured),
            *((name, reasons[name] or last[name]) for name in steps if name not in ("who", "evenbench run")),
        ],
    )
    needed = [reason for name, reason in reasons.items() if name != "evenbench doctor --host"]
    return is_unprivileged(who) and not any(needed)


def last_line(path: Path) -> str:
    """The last line of a log."""
    return " ".join(path.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:])


def is_unprivileged(status: str) -> bool:
    """Whether these lines of /proc/self/status are of the other user, without a capability."""
    words = status.split()
    values = dict(itertools.pairwise(words))  # a label, then its first value
    return values.get("Uid:") == str(USER) and int(values.get("CapEff:", "1"), 16) == WITHOUT_CAPABILITIES


def repeat_rows(events: Events) -> str:
    """The cases that were measured, with their medians and the timer."""
    rows = [event for event in events if event["event"] == "measurement"]
    return ", ".join(
        f"`{row['case']}` {statistics.median(row['device_busy_ns']) / 1e3:.2f} µs by {row['timing']}" for row in rows
    )


def dropped_privileges() -> list[str]:
    """What comes before a command so that it runs as the other user, without capabilities."""
    if shutil.which("setpriv") is None:
        raise SystemExit("error: setpriv is not installed (hint: it is part of util-linux)")
    if os.getuid() != 0:
        raise SystemExit("error: only root can become another user (hint: run this figure as root)")
    ids = ["--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
    return ["setpriv", *ids, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]


def readable_copy(scratch: Path) -> tuple[Path, Path]:
    """This repository where any user can read it, and a home that is the other user's own."""
    root, home = scratch / "evenbench", scratch / "home"
    root.mkdir()
    for name in UNPRIVILEGED_PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, root / name)
    home.mkdir()
    os.chown(home, USER, USER)
    scratch.chmod(0o755)
    return root, home


def without_root(root: Path) -> str:
    """PYTHONPATH with the copy in this repository's place."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([str(root), *(entry for entry in entries if entry and Path(entry).resolve() != ROOT)])
