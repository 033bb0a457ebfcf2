"""What `compare --confirm` adds: a second, independent run of the cases that regressed, in a file beside the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from evenbench.runner.errors import EvenbenchError, UsageError
from evenbench.runner.execute.measuring import Done
from evenbench.runner.plan.plan import second_seed
from evenbench.runner.plan.request import Request

from .console import say

ENDINGS = (".results.jsonl", ".jsonl")  # of a results file's name, the longest first


def second_file(first: Path) -> Path:
    """Where the second run of the one in `first` is written."""
    stem = next((first.name.removesuffix(end) for end in ENDINGS if first.name.endswith(end)), first.name)
    return first.with_name(f"{stem}.confirm.results.jsonl")


def with_room_for_second(request: Request) -> Request:
    """The request of the first run, which counts neither file as a part of a side.

    Raises UsageError where the second file is in the way, or has nothing to be gone on with.
    """
    from evenbench.reports.load.results import load_file

    second = second_file(request.output)
    if second.exists() and not request.resume:
        raise UsageError(f"{second} exists already: --confirm writes there", "give another --output")
    if second.exists() and load_file(second).complete_shards:
        raise UsageError(f"--resume: the second run in {second} is complete", "evenbench report shows both, given both")
    return replace(request, beside=(second,))


def first_is_whole(request: Request) -> bool:
    """Whether `--resume` was asked for and the first run is complete: then only the second is gone on with."""
    from evenbench.reports.load.results import load_file

    return request.resume and request.output.exists() and load_file(request.output).complete_shards


def second_run(request: Request, measure: Callable[[Request], Done]) -> list[Path]:
    """Measure what regressed in the first run once more; the file that it is in, none where nothing regressed.

    What goes wrong costs the second run alone: the first one is shown, and what it called regressed counts.
    """
    from evenbench.reports.compare.compare import compare
    from evenbench.reports.compare.confirm import to_confirm
    from evenbench.reports.load.results import load_file

    results = load_file(request.output)
    cases = to_confirm(compare(results, datetime.now(UTC).date()))
    if not cases:
        return []
    say(f"confirming: a second run of {len(cases)} {'case' if len(cases) == 1 else 'cases'}")
    second = second_file(request.output)
    again = replace(
        request,
        specs=request.specs[:2],
        output=second,
        patterns=[f"id:{case}" for case in cases],
        seed=second_seed(results.header.seed),
        shard=(0, 1),
        share=None,  # of which cases the shard has, their ids alone decide
        plant=None,
        resume=second.exists(),
        confirms=results.header.run_id,
        beside=(request.output,),
    )
    try:
        measure(again)
    except EvenbenchError as error:
        say(f"error: the second run: {error}")
    return [second] if second.exists() else []
