"""From a request to a results file: sides, sessions, `execute`. Opens and closes everything."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..artifacts.texts import Texts
from ..ceilings.for_run import RunCeilings, may_measure
from ..ceilings.store import user_store
from ..config import Config, RunSettings
from ..config.expectations import Expectation
from ..errors import NothingMeasured, UsageError
from ..launchers.container import choose_launcher
from ..launchers.launcher import Launcher
from ..machine import doctor
from ..machine.gpus import Gpu, choose_gpu, choose_gpus, gpus
from ..machine.locks import HOST, machine_locks
from ..plan.expectations import expectations_of
from ..plan.plan import Plan
from ..plan.request import Request, check_cases, check_directory, config_of, header_of, settings_of
from ..plan.selection import Crew, SideCases, discover
from ..records import Header, SideEvent, Writer
from ..sides import Checkout, Side, Sides, SideSpec, check_preload, code_stamps, edited_since
from .attempts import Progress
from .chains import Chain
from .execute import RunOutcome, end_of, execute
from .origins import ModuleOrigins, WatchedSession
from .resume import cut_to_header, same_gpus, take_up
from .rounds import Run, Taken

RESULTS_FOLDER = ".evenbench"
ATTEMPTS = 3  # of a row that misses its expectation, the first included
EDITS_NAMED = 5  # files in the message about edits; a checkout of another branch edits hundreds


@dataclass(frozen=True)
class Done:
    """A finished run: its file, how it went, and the configuration that judges it."""

    output: Path
    outcome: RunOutcome
    config: Config
    settings: RunSettings


def measure(
    request: Request,
    progress: Callable[[int], contextlib.AbstractContextManager[Progress]],
    log: Callable[[str], None],
    judge: Callable[[Path], Collection[str]] | None = None,
) -> Done:
    """Do what was asked. Whatever happens, what was measured stands in `request.output`.

    Args:
        progress: given the number of timed launches, a context that shows progress.
        log: told in a line what takes long or is worth knowing.
        judge: told the results file after each look but the last, the ids of the cases that go on; None: none does.

    Raises:
        EvenbenchError: see its tree; nothing is left behind but the results file.
    """
    check_cases(request.cases)
    if request.output.exists() and not request.resume:
        raise UsageError(f"{request.output} exists already", "give another --output, or go on with --resume")
    found = [] if request.only_texts else gpus()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = [] if request.only_texts else _chosen(request, found, visible)
    with Sides(request.repo, log=log, exclude=(request.output, *request.beside)) as sides:
        checkouts = [sides.check_out(spec) for spec in request.specs]
        if request.save_texts and checkouts[0].kind == "ref":
            raise UsageError(
                "--update-artifacts: a git ref cannot be written to", "name a directory, or leave --in out"
            )
        config = config_of(request, checkouts)
        expected = expectations_of(checkouts, request.cases)
        settings = settings_of(request, config, ATTEMPTS if expected else 1)
        launcher = choose_launcher(request.launcher, config.image, chosen[0].uuid if chosen else "", os.environ)
        header = header_of(request, config, settings, checkouts, launcher.image)
        if request.resume:
            take_up(request.output, header, request.seed)  # what cannot be taken up is refused before any waiting
        if header.same_code and header.plant is None:
            log("note: both sides are the same code, so what this shows is how often that is called changed (A/A)")
        words = f"evenbench {request.verb} {' '.join(checkout.label for checkout in checkouts)}"
        held = [] if request.only_texts else [gpu.uuid for gpu in chosen] or [HOST]
        with machine_locks(held, log, description=words, output=str(request.output), wait=request.wait):
            notes = [
                note
                for gpu in ([] if request.only_texts else _places(chosen))
                for note in doctor.check_before_run(gpu, found, go_on=request.ignore_unfit)
            ]
            _make_folder(request.output)
            with Writer(request.output, resume=request.resume) as writer:
                header, taken = _begin(request, header, chosen, writer)
                planned = _Planned(config, settings, header, chosen, launcher, notes, taken, expected)
                outcome = _measure_sides(request, planned, sides, checkouts, writer, progress, judge)
                writer.write(end_of(outcome))
    return Done(request.output, outcome, config, settings)


def _chosen(request: Request, found: list[Gpu], visible: str | None) -> list[Gpu]:
    """The GPUs to measure on; none on a machine without. Raises UsageError."""
    if request.gpus is not None:
        return choose_gpus(request.gpus, found, visible)
    gpu = choose_gpu(request.gpu, found, visible)
    return [gpu] if gpu else []


def _places(chosen: Sequence[Gpu]) -> Sequence[Gpu | None]:
    """Where there is a chain of launches: each GPU, or a machine without."""
    return chosen or [None]


def _make_folder(output: Path) -> None:
    """The folder of a results file; the default one holds its own .gitignore, so that results make no tree dirty."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        if output.parent.name == RESULTS_FOLDER and not (output.parent / ".gitignore").exists():
            (output.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{output.parent} cannot be written: {error.strerror}", "name another place with --output"
        ) from None


def _begin(request: Request, header: Header, chosen: Sequence[Gpu], writer: Writer) -> tuple[Header, Taken | None]:
    """Write the header of a new run; or take up the interrupted one, of which nothing is lost."""
    if not request.resume:
        writer.write(header)
        return header, None
    header, taken = take_up(request.output, header, request.seed)
    same_gpus(request.output, [gpu.uuid for gpu in chosen])
    writer.cut_unfinished_line()
    if taken is None:
        cut_to_header(request.output)
    return header, taken


def _code_in_place(request: Request, side: Side) -> dict[str, Any]:
    """Stamps of a side's code where it is measured as it lies, so that an edit meanwhile is noticed; else nothing."""
    if side.checkout.kind == "ref" or side.root != side.checkout.root:
        return {}
    return code_stamps(side.root, (request.output, *request.beside))


def _edits(side: Side, before: Mapping[str, Any]) -> list[str]:
    """What was edited in a side while it was measured: its rounds are then not of one code."""
    files = edited_since(side.root, before)
    named = ", ".join(files[:EDITS_NAMED]) + (
        f" and {len(files) - EDITS_NAMED} more" if len(files) > EDITS_NAMED else ""
    )
    return [f"{side.name}: {named}"] if files else []


def discover_only(request: Request, log: Callable[[str], None]) -> tuple[Config, SideCases]:
    """The cases of one side, found in a process of it, as `evenbench list` shows them."""
    with Sides(request.repo, log=log) as sides:
        spec = request.specs[0]
        checkout = sides.check_out(spec)
        config = config_of(request, [checkout])
        check_directory(request, [checkout])
        with choose_launcher(request.launcher, config.image, "", os.environ) as launcher:
            side = launcher.prepare(sides, checkout, spec, "")
            with contextlib.closing(launcher.open(side, side, "")) as session:
                return config, discover(Crew(side, session, str(side.root / request.cases)))


@dataclass(frozen=True)
class _Planned:
    """Everything about a run that is settled before its sides are set up."""

    config: Config
    settings: RunSettings
    header: Header
    gpus: Sequence[Gpu]
    launcher: Launcher
    notes: Sequence[str]
    taken: Taken | None
    expected: Sequence[Expectation]


def _measure_sides(
    request: Request,
    planned: _Planned,
    sides: Sides,
    checkouts: Sequence[Checkout],
    writer: Writer,
    progress: Callable[[int], contextlib.AbstractContextManager[Progress]],
    judge: Callable[[Path], Collection[str]] | None,
) -> RunOutcome:
    header = planned.header
    plan = Plan(tuple(spec.name for spec in request.specs), header.seed, header.rounds, request.shard, request.share)
    preload = planned.config.preload
    run = Run(
        request.verb,
        plan,
        planned.settings,
        header.looks,
        request.patterns,
        preload,
        planned.gpus[0] if planned.gpus else None,
        planned.taken,
        planned.notes,
        request.plant,
        planned.expected,
        request.only_texts,
        request.durations,
    )
    with contextlib.ExitStack() as stack:
        launcher = stack.enter_context(planned.launcher)
        shown = stack.enter_context(progress(len(request.specs) * header.rounds * max(1, len(planned.gpus))))
        notes = _ceilings(request, planned, launcher, writer, shown, sides.say)
        run = replace(run, notes=[*run.notes, *notes])
        pairs = zip(checkouts, request.specs, strict=True)
        ready = [_prepare(planned, sides, checkout, spec, writer, shown) for checkout, spec in pairs]
        for side in ready:
            check_preload(preload, side, run=launcher.run_python)
        origins = ModuleOrigins(ready, request.repo)
        owners = {side.name: _owner(request, side, ready) for side in ready}
        texts = {name: Texts(owner.checkout.root, request.cases) for name, owner in owners.items()}
        chains = []
        for gpu in _places(planned.gpus):
            crews = [_crew(request, launcher, side, owners[side.name], gpu, texts[side.name], stack) for side in ready]
            watched = [replace(crew, session=WatchedSession(crew.session, crew.name, origins)) for crew in crews]
            chains.append(Chain(gpu, watched))
        before = [_code_in_place(request, side) for side in ready]
        outcome = execute(run, chains, writer, shown, judge and (lambda: judge(request.output)), origins)
    changed = [text for side, stamps in zip(ready, before, strict=True) for text in _edits(side, stamps)]
    return replace(outcome, changed=changed, texts=texts)


def _ceilings(
    request: Request,
    planned: _Planned,
    launcher: Launcher,
    writer: Writer,
    progress: Progress,
    log: Callable[[str], None],
) -> list[str]:
    """Write what the devices reach, unless nobody wants it or it stands in the file; returns why some is missing."""
    if request.only_texts or planned.taken or not planned.settings.measure.ceilings:
        return []
    tell = request.verb == "run"  # whose tables are of rates; a comparison is of changes
    found = RunCeilings(launcher, user_store(os.environ), progress.stage, log, may_measure(os.environ), tell)
    events, notes = found.of(planned.gpus)
    for event in events:
        writer.write(event)
    return notes


def _prepare(
    planned: _Planned, sides: Sides, checkout: Checkout, spec: SideSpec, writer: Writer, progress: Progress
) -> Side:
    progress.stage(f"setting up {checkout.name}: {checkout.label}")
    try:
        return planned.launcher.prepare(sides, checkout, spec, planned.config.setup)
    except NothingMeasured as error:
        writer.write(SideEvent(side=spec.name, status="failed", error=str(error)[:4_000]))
        raise


def _owner(request: Request, side: Side, ready: Sequence[Side]) -> Side:
    """The side whose cases a side runs."""
    return next(one for one in ready if one.name == "head") if request.cases_from == "head" else side


def _crew(
    request: Request,
    launcher: Launcher,
    side: Side,
    owner: Side,
    gpu: Gpu | None,
    texts: Texts,
    stack: contextlib.ExitStack,
) -> Crew:
    session = stack.enter_context(contextlib.closing(launcher.open(side, owner, gpu.uuid if gpu else "")))
    return Crew(side, session, str(launcher.root_of_cases(side, owner) / request.cases), texts)
