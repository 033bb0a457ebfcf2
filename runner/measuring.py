"""From a request to a results file: sides, sessions, `execute`. Opens and closes everything."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import doctor
from .attempts import Progress
from .config import Config, RunSettings
from .container import choose_launcher
from .errors import NothingMeasured, UsageError
from .execute import Outcome, end_of, execute
from .launch import Launcher
from .machine import HOST, Gpu, choose_gpu, gpus, machine_lock
from .plan import Plan
from .preparation import Crew, Found, discover
from .records import Header, SideEvent, Writer
from .request import (
    Request,
    check_cases,
    check_directory,
    config_of,
    header_of,
    judge_settings,
    load_given,
    settings_of,
)
from .resume import cut_to_header, same_gpu, take_up
from .rounds import Run, Taken
from .sides import (
    Checkout,
    Side,
    Sides,
    SideSpec,
    code_stamps,
    edited_since,
    shared_preload,
)

__all__ = ["RESULTS_FOLDER", "Done", "Request", "discover_only", "judge_settings", "load_given", "measure"]

RESULTS_FOLDER = ".evenbench"
EDITS_NAMED = 5  # files in the message about edits; a checkout of another branch edits hundreds


@dataclass(frozen=True)
class Done:
    """A finished run: its file, how it went, and the configuration that judges it."""

    output: Path
    outcome: Outcome
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
    found = gpus()
    gpu = choose_gpu(request.gpu, found, os.environ.get("CUDA_VISIBLE_DEVICES"))
    with Sides(request.repo, log=log, exclude=(request.output, *request.beside)) as sides:
        checkouts = [sides.check_out(spec) for spec in request.specs]
        config = config_of(request, checkouts)
        settings = settings_of(request, config)
        launcher = choose_launcher(request.launcher, config.image, gpu.uuid if gpu else "", os.environ)
        header = header_of(request, config, settings, checkouts, launcher.image)
        if request.resume:
            take_up(request.output, header, request.seed)  # what cannot be taken up is refused before any waiting
        with machine_lock(gpu.uuid if gpu else HOST, log):
            notes = doctor.look_before_run(gpu, found, go_on=request.ignore_unfit)
            _make_folder(request.output)
            with Writer(request.output, resume=request.resume) as writer:
                header, taken = _begin(request, header, gpu, writer)
                planned = _Planned(config, settings, header, gpu, launcher, notes, taken)
                outcome = _measure_sides(request, planned, sides, checkouts, writer, progress, judge)
                writer.write(end_of(outcome))
    return Done(request.output, outcome, config, settings)


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


def _begin(request: Request, header: Header, gpu: Gpu | None, writer: Writer) -> tuple[Header, Taken | None]:
    """Write the header of a new run; or take up the interrupted one, of which nothing is lost."""
    if not request.resume:
        writer.write(header)
        return header, None
    header, taken = take_up(request.output, header, request.seed)
    same_gpu(request.output, gpu.uuid if gpu else "")
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


def discover_only(request: Request, log: Callable[[str], None]) -> tuple[Config, Found]:
    """The cases of one side, found in a process of it, as `evenbench list` shows them."""
    with Sides(request.repo, log=log) as sides:
        spec = request.specs[0]
        checkout = sides.check_out(spec)
        config = config_of(request, [checkout])
        check_directory(request, [checkout])
        with choose_launcher(request.launcher, config.image, "", os.environ) as launcher:
            side = launcher.prepare(sides, checkout, spec, "")
            with contextlib.closing(launcher.open(side, side)) as session:
                return config, discover(Crew(side, session, str(side.root / request.cases)))


@dataclass(frozen=True)
class _Planned:
    """Everything about a run that is settled before its sides are set up."""

    config: Config
    settings: RunSettings
    header: Header
    gpu: Gpu | None
    launcher: Launcher
    notes: Sequence[str]
    taken: Taken | None


def _measure_sides(
    request: Request,
    planned: _Planned,
    sides: Sides,
    checkouts: Sequence[Checkout],
    writer: Writer,
    progress: Callable[[int], contextlib.AbstractContextManager[Progress]],
    judge: Callable[[Path], Collection[str]] | None,
) -> Outcome:
    header, gpu = planned.header, planned.gpu
    plan = Plan(tuple(spec.name for spec in request.specs), header.seed, header.rounds, request.shard)
    preload = planned.config.preload
    run = Run(
        request.verb,
        plan,
        planned.settings,
        header.looks,
        request.patterns,
        preload,
        gpu,
        planned.taken,
        planned.notes,
        request.plant,
    )
    with contextlib.ExitStack() as stack:
        launcher = stack.enter_context(planned.launcher)
        shown = stack.enter_context(progress(len(request.specs) * header.rounds))
        pairs = zip(checkouts, request.specs, strict=True)
        ready = [_prepare(planned, sides, checkout, spec, writer, shown) for checkout, spec in pairs]
        if len(ready) > 1:
            shared_preload(preload, ready[0], ready[1], run=launcher.run_python)
        crews = [_crew(request, launcher, side, ready, stack) for side in ready]
        before = [_code_in_place(request, side) for side in ready]
        outcome = execute(run, crews, writer, shown, judge and (lambda: judge(request.output)))
    changed = [text for side, stamps in zip(ready, before, strict=True) for text in _edits(side, stamps)]
    return replace(outcome, changed=changed)


def _prepare(
    planned: _Planned, sides: Sides, checkout: Checkout, spec: SideSpec, writer: Writer, progress: Progress
) -> Side:
    progress.stage(f"setting up {checkout.name}: {checkout.label}")
    try:
        return planned.launcher.prepare(sides, checkout, spec, planned.config.setup)
    except NothingMeasured as error:
        writer.write(SideEvent(side=spec.name, status="failed", error=str(error)[:4_000]))
        raise


def _crew(request: Request, launcher: Launcher, side: Side, ready: Sequence[Side], stack: contextlib.ExitStack) -> Crew:
    owner = next(one for one in ready if one.name == "head") if request.cases_from == "head" else side
    session = stack.enter_context(contextlib.closing(launcher.open(side, owner)))
    return Crew(side, session, str(launcher.root_of_cases(side, owner) / request.cases))
