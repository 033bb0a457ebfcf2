"""What a person asked for, and what follows from it before anything is measured: configuration, settings, header."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from .. import __version__
from ..config import Config, RunSettings, load, parse, resolve
from ..errors import UsageError
from ..launchers.host_settings import LauncherName
from ..records import Harness, Header, JudgeSettings, MuteRecord, PlantRecord, Shard, SideInfo
from ..sides import Checkout, SideSpec, side_config_text
from .balance import Share
from .plan import SEED_BITS

SUITES = "suites.yaml"
SIDE_TEXT_KEPT = 4_000  # characters of a set-up command in the header


@dataclass(frozen=True)
class Request:
    """What a person asked for on the command line, with nothing resolved yet.

    Args:
        verb: ``compare`` or ``run``.
        repo: a folder of the repository that is measured.
        specs: the sides, base first.
        output: the results file.
        cases: the cases directory, relative to a side's root.
        patterns: narrow the suite's cases; may be empty.
        keys: settings given on the command line; None counts as not given.
        ignore_unfit: measure on a machine that is not fit, and say so in the results.
        gpus: several of them, instead of `gpu`.
        durations: what a launch takes for each case that is known, by which several GPUs share the cases.
        wait: for another run that measures on the same GPU; else end at once.
        launcher: how launches start; None: as this machine demands, else as processes of this user.
        only_texts: ask the cases for the texts that they generate, off every device, and for no more.
        save_texts: the saved copies are to be written anew, so the side must be a directory that stays.
        confirms: the run whose regressed rows this one measures again; empty for any other.
        beside: other files that the command writes: like `output` they make no tree dirty.
    """

    verb: Literal["run", "compare"]
    repo: Path
    specs: Sequence[SideSpec]
    output: Path
    cases: str = "cases"
    cases_from: Literal["own", "head"] = "own"
    config: Path | None = None
    suite: str | None = None
    patterns: Sequence[str] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    seed: int | None = None
    shard: tuple[int, int] = (0, 1)
    share: Share | None = None
    plant: PlantRecord | None = None
    gpu: str | None = None
    gpus: str | None = None
    durations: Mapping[str, float] = field(default_factory=dict)
    launcher: LauncherName | None = None
    resume: bool = False
    ignore_unfit: bool = False
    wait: bool = True
    only_texts: bool = False
    save_texts: bool = False
    confirms: str = ""
    beside: Sequence[Path] = ()


def check_cases(cases: str) -> None:
    """Raises UsageError for a cases directory outside of the side."""
    path = PurePosixPath(cases)
    if path.is_absolute() or ".." in path.parts:
        raise UsageError(
            f"--cases {cases}: must lie inside the repository", "give it relative to the repository's root"
        )


def check_directory(request: Request, checkouts: Sequence[Checkout]) -> None:
    """Raises UsageError where no side has the cases directory."""
    if not any((checkout.root / request.cases).is_dir() for checkout in checkouts):
        where = " or ".join(dict.fromkeys(checkout.label for checkout in checkouts))
        hint = "evenbench init writes a first case; --cases names another directory"
        raise UsageError(f"no directory {request.cases}/ in {where}", hint)


def config_of(request: Request, checkouts: Sequence[Checkout]) -> Config:
    """suites.yaml of base where base has one, so that a pull request cannot loosen its own judge; else of head."""
    if request.config is not None:
        return load_given(request.config)
    check_directory(request, checkouts)
    for checkout in checkouts:
        text = side_config_text(checkout, request.cases)
        if text is not None:
            config = parse(text, f"{request.cases}/{SUITES} of {checkout.name}")
            return config if checkout is checkouts[0] else replace(config, image="")  # head's word does not choose it
    return Config.default()


def settings_of(request: Request, config: Config, attempts: int = 1) -> RunSettings:
    """The settings of a run: those of the suite, with what the command line says.

    What misses its expectation is measured in so many `attempts` at most.
    """
    keys = dict(request.keys)
    if request.verb == "run":
        settings = resolve(config, request.suite, keys)
        return settings.without_judging(1 if request.rounds is None else request.rounds, attempts)
    keys["rounds"] = request.rounds
    if request.rounds is not None and keys.get("max_rounds") is None:
        keys["max_rounds"] = request.rounds  # who asks for so many rounds gets just those
    return resolve(config, request.suite, keys)


def load_given(path: Path) -> Config:
    """A configuration that was asked for by name, so it must be there."""
    if not path.is_file():
        raise UsageError(f"--config {path}: no such file", "name a suites.yaml")
    return load(path)


def judge_settings(config: Config, settings: RunSettings) -> JudgeSettings:
    """What verdicts depend on, as the results file keeps it."""
    return JudgeSettings(
        min_effect=settings.min_effect,
        equivalence=settings.equivalence,
        family_error=settings.family_error,
        min_effects=list(settings.min_effects),
        fail_on=list(settings.fail_on),
        mute=[MuteRecord(match=mute.match, why=mute.why, until=mute.until.isoformat()) for mute in config.mute],
    )


def header_of(
    request: Request, config: Config, settings: RunSettings, checkouts: Sequence[Checkout], image: str
) -> Header:
    """The first line of the results file. `image` is what the launches run in; empty for none."""
    return Header(
        verb=request.verb,
        run_id=secrets.token_hex(8),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        sides=[
            SideInfo(
                name=checkout.name,
                label=checkout.label[:1_000],
                sha=checkout.sha,
                dirty=checkout.dirty,
                tree=checkout.tree,
                setup=spec.setup[:SIDE_TEXT_KEPT] if spec.setup is not None else None,
                python=spec.python,
                exact=checkout.exact,
            )
            for checkout, spec in zip(checkouts, request.specs, strict=True)
        ],
        harness=Harness(version=__version__),
        image=image[:1_000],
        suite=settings.suite,
        patterns=list(request.patterns),
        cases_from=request.cases_from,
        seed=request.seed if request.seed is not None else secrets.randbits(SEED_BITS),
        rounds=settings.rounds,
        looks=list(settings.looks),
        shard=Shard(index=request.shard[0], count=request.shard[1], plan=request.share.plan if request.share else ""),
        plant=request.plant,
        confirms=request.confirms,
        judge=judge_settings(config, settings),
        settings=settings.as_dict(),
    )
