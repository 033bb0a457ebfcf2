"""What is shown of a run under way."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from rich.console import Console

from evenbench.cli.steps.progress import ConsoleProgress, device_words, host_words, seconds_left

SEEN: Mapping[str, float | str | None] = {"sm_clock_mhz": 1980.0, "temperature_c": 36.5, "throttle_reasons": ""}


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds on the clock; a test sets them."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "getloadavg", lambda: (0.25, 1.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return clock


def frame(progress: ConsoleProgress, width: int = 80) -> list[str]:
    """The live lines as they would be drawn now."""
    console = Console(file=io.StringIO(), width=width, force_terminal=False, _environ={})
    with console.capture() as drawn:
        console.print(progress._shown())
    return [line.rstrip() for line in drawn.get().splitlines()]


def live() -> ConsoleProgress:
    return ConsoleProgress(Console(file=io.StringIO()), 16, live=True)


class TestLive:
    def test_stage_launch_case_device_and_time(self, now: list[float]) -> None:
        progress = live()
        progress.stage("discovering cases")
        assert frame(progress)[0][2:] == "discovering cases"
        progress.more(4)
        progress.launch("base", "round 1 of 2", 2)
        assert frame(progress)[0][2:] == "round 1 of 2 · base"  # how long one takes is not known yet
        progress.case("norm/rms[cols=1]")
        now[0] += 10
        progress.launch_done(SEEN)
        progress.launch("head", "round 1 of 2", 2)
        progress.case("norm/rms[cols=1]")
        now[0] += 5
        progress.case("norm/rms[cols=2]")
        above, below = frame(progress)
        assert above[2:] == "round 1 of 2 · head · about 25 s left · 1980 MHz, 36 °C"  # 2.5 launches
        assert below.endswith(" case 2 of 2 · norm/rms[cols=2]")

    def test_preparation_takes_no_part_in_the_time_that_is_left(self, now: list[float]) -> None:
        progress = live()
        progress.launch("base", "preparation", 1)
        now[0] += 50
        progress.launch_done({})
        progress.more(2)
        progress.launch("base", "round 1 of 1", 1)
        now[0] += 5
        progress.launch_done({})
        progress.launch("head", "round 1 of 1", 1)
        assert frame(progress)[0][2:] == "round 1 of 1 · head · about 5 s left · load 0.2 on 2 CPUs"

    def test_a_launch_on_the_host_does_not_hide_what_is_known_of_the_device(self) -> None:
        progress = live()
        progress.launch_done(SEEN)
        progress.launch_done({})
        progress.launch("head", "round 2 of 2", 1)
        assert "1980 MHz, 36 °C" in frame(progress)[0]

    @pytest.mark.parametrize("width", [30, 60, 200])
    def test_lines_fit(self, width: int) -> None:
        progress = live()
        progress.launch_done({**SEEN, "throttle_reasons": "x" * 100})
        progress.launch("head", "round 2 of 2", 1)
        progress.case("y" * 160)
        lines = frame(progress, width)
        assert len(lines) == 2
        assert max(map(len, lines)) <= width
        assert lines[0].endswith("…") == (width < 160)

    def test_foreign_text_is_only_text(self) -> None:
        progress = live()
        progress.launch_done({"sm_clock_mhz": 1.0, "throttle_reasons": "[red]a\x1b[2J\n"})
        progress.launch("head", "round 1 of 1", 1)
        progress.case("[/bold]\x1b]0;title\x07\r[n=1]")
        text = "\n".join(frame(progress))
        assert "held back: [red]a" in text
        assert "[/bold]" in text
        assert "[n=1]" in text
        assert all(char.isprintable() or char == "\n" for char in text)


FIRST, SECOND = "GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc", "GPU-7e99aaaa-0000-1111-2222-333344445555"


class TestSeveralGpus:
    def test_each_has_a_line_and_a_counter_of_its_own(self, now: list[float]) -> None:
        progress = live()
        progress.more(4)
        progress.launch("head", "round 1 of 2", 3, SECOND)
        assert frame(progress)[0][2:] == "round 1 of 2 · head"  # as ever, until a second one launches
        progress.launch("base", "round 1 of 2", 2, FIRST)
        progress.case("a/first", FIRST)
        progress.case("b/first", SECOND)
        progress.case("b/second", SECOND)
        above, bar, *lines = frame(progress)
        assert above[2:] == "round 1 of 2"
        assert bar.endswith(" 2 GPUs")
        assert lines == [
            "GPU-6d786b7a · base · case 1 of 2 · a/first",
            "GPU-7e99aaaa · head · case 2 of 3 · b/second",
        ]
        now[0] += 10
        progress.launch_done(SEEN, FIRST)
        above, _, *lines = frame(progress)
        # A launch and the first third of another took 10 s, and 2 2/3 are left; no device speaks for both.
        assert above[2:] == "round 1 of 2 · about 20 s left"
        assert lines == ["GPU-6d786b7a · idle · 1980 MHz, 36 °C", "GPU-7e99aaaa · head · case 2 of 3 · b/second"]
        progress.launch("head", "round 1 of 2", 2, FIRST)
        assert frame(progress)[2] == "GPU-6d786b7a · head · 2 cases · 1980 MHz, 36 °C"

    def test_a_new_stage_has_no_launches(self) -> None:
        progress = live()
        for gpu in (FIRST, SECOND):
            progress.launch("head", "round 6 of 6", 1, gpu)
            progress.launch_done({}, gpu)
        progress.stage("judging after 6 rounds")
        (line,) = frame(progress)
        assert line[2:].startswith("judging after 6 rounds · ")
        progress.launch("base", "round 7 of 9", 1, SECOND)  # the other one's cases are done
        assert frame(progress)[2:] == ["GPU-6d786b7a · idle", "GPU-7e99aaaa · base · 1 case"]

    @pytest.mark.parametrize("width", [30, 60, 200])
    def test_lines_fit_and_foreign_text_is_only_text(self, width: int) -> None:
        progress = live()
        for gpu in (FIRST, SECOND):
            progress.launch_done({**SEEN, "throttle_reasons": "[red]x\x1b[2J\n"}, gpu)
            progress.launch("head", "round 2 of 2", 1, gpu)
            progress.case("\r[/bold]\x1b" + "y" * 300, gpu)
        lines = frame(progress, width)
        assert len(lines) == 4
        assert max(map(len, lines)) <= width
        assert all(line.isprintable() for line in lines)
        assert all(line.endswith("…") for line in lines[2:])

    def test_plain_lines_are_one_a_round(self, now: list[float]) -> None:
        file = io.StringIO()
        with ConsoleProgress(Console(file=file, width=200), 4, live=False) as progress:
            for number in (1, 2):
                for gpu in (FIRST, SECOND):
                    progress.launch("head", f"round {number} of 2", 1, gpu)
                now[0] += 2
                for gpu in (FIRST, SECOND):
                    progress.launch_done(SEEN, gpu)
        assert file.getvalue().splitlines() == ["[   0.0 s] round 1 of 2", "[   2.0 s] round 2 of 2 · about 2 s left"]

    def test_a_gpu_that_is_behind_tells_no_round_again(self, now: list[float]) -> None:
        file = io.StringIO()
        with ConsoleProgress(Console(file=file, width=200), 4, live=False) as progress:
            for gpu, number in ((FIRST, 1), (SECOND, 1), (FIRST, 2), (SECOND, 1), (FIRST, 2), (SECOND, 2)):
                progress.launch("head", f"round {number} of 2", 1, gpu)
        assert file.getvalue().splitlines() == ["[   0.0 s] round 1 of 2", "[   0.0 s] round 2 of 2"]

    def test_no_launch_of_any_thread_is_lost(self) -> None:
        progress = live()
        progress.more(10_000)

        def chain(gpu: str) -> None:
            for _ in range(500):
                progress.launch("head", "round 1 of 1", 2, gpu)
                progress.case("a", gpu)
                progress.launch_done({}, gpu)

        with ThreadPoolExecutor() as pool:
            done = [pool.submit(chain, f"GPU-{number}") for number in range(4)]
            while not all(each.done() for each in done):
                frame(progress)
        assert [each.result() for each in done] == [None] * 4
        assert progress._timed == 2_000


class TestLines:
    def test_one_for_each_stage_and_round(self, now: list[float]) -> None:
        file = io.StringIO()
        with ConsoleProgress(Console(file=file, width=200), 4, live=False) as progress:
            progress.stage("measuring [x]")
            for number in (1, 2):
                for side in ("base", "head"):
                    progress.launch(side, f"round {number} of 2", 1)
                    progress.case("a")
                    now[0] += 2
                    progress.launch_done({})
        assert file.getvalue().splitlines() == [
            "[   0.0 s] measuring [x]",
            "[   0.0 s] round 1 of 2",
            "[   4.0 s] round 2 of 2 · about 4 s left · load 0.2 on 2 CPUs",
        ]


@pytest.mark.parametrize(
    ("seconds", "words"), [(-1, "0 s"), (0.4, "0 s"), (99.4, "99 s"), (100, "2 min"), (3_600, "60 min")]
)
def test_time_that_is_left(seconds: float, words: str) -> None:
    assert seconds_left(seconds) == words


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ({}, ""),
        ({"note": "nothing was seen"}, ""),
        ({"sm_clock_mhz": 1980}, "1980 MHz"),
        ({"sm_clock_mhz": None, "temperature_c": "hot"}, ""),
        ({"temperature_c": 71.2, "throttle_reasons": "power cap"}, "71 °C, held back: power cap"),
    ],
)
def test_words_of_a_device(seen: dict[str, float | str | None], words: str) -> None:
    assert device_words(seen) == words


def test_a_host_says_how_busy_it_is() -> None:
    assert host_words().startswith("load ")
