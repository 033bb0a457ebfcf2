"""Every error evenbench raises on purpose, and the exit code each one means.

::

    EvenbenchError
    ├── UsageError                  2   the command line, a ref, a path
    │   ├── ConfigError                 suites.yaml; carries the path of the offending key
    │   └── CaseError                   a case or case file is malformed; carries file and line
    ├── UnfitMachine                3   the machine cannot measure: no such device, another tenant, a broken CUPTI
    ├── NothingMeasured             4   set-up failed, no common case, one library file behind both sides
    ├── UntrustedInput              5   a results file that is not what it says
    ├── GitHubRefused               6   the API said no
    ├── PullRequestMoved            8   the pull request is no longer at the measured head
    └── MeasurementError            –   one case, inside a launch; becomes a `failure` record of kind `kind`
        ├── SetupError                  the case function raised, or returned no Bench
        ├── RuntimeFailure              the timed call raised
        ├── OutOfMemory                 the device or the host had no memory left for the case
        ├── WrongResult                 the check against the reference failed
        ├── InputsChanged               shared inputs were written by an implementation
        ├── TimerUnavailable            the timer asked for cannot work here
        ├── ColdProbeFailed             the cache step leaves data in the cache
        ├── RecordsLost                 CUPTI dropped activity records
        ├── OffThreadLaunch             a kernel carries no id of ours
        ├── NoDeviceWork                an iteration reached no device
        ├── AttributionForged           timed code tampered with the correlation ids
        └── SamplesRejected             too many samples failed validation

Exit codes without an error class: 0 fine, 1 a ``fail_on`` condition was met, 70 a bug in evenbench, 130 interrupted.
This module imports nothing, so that a launch can load it in any environment.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAIL_ON = 1
EXIT_BUG = 70  # EX_SOFTWARE of sysexits.h, so that a bug of ours is not taken for a regression
EXIT_INTERRUPTED = 130


class EvenbenchError(Exception):
    """Base of all errors raised on purpose: one line for people, and how to fix it.

    Args:
        message: what is wrong, in one line.
        hint: what to do about it; empty where the message already says so.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class UsageError(EvenbenchError):
    """A command line, ref or path that cannot be followed. Exit 2."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting in suites.yaml or on the command line is wrong. The message starts with the key's path."""


class CaseError(UsageError):
    """A case is malformed: unknown keyword, empty grid, bad id, duplicate id. The message names file and line."""


class UnfitMachine(EvenbenchError):
    """This machine cannot measure what was asked. Exit 3."""

    exit_code = 3


class NothingMeasured(EvenbenchError):
    """The run ended without one comparable measurement. Exit 4."""

    exit_code = 4


class UntrustedInput(EvenbenchError):
    """A results file breaks its format or its bounds. Exit 5."""

    exit_code = 5


class GitHubRefused(EvenbenchError):
    """GitHub's API refused a request for good. Exit 6."""

    exit_code = 6


class PullRequestMoved(EvenbenchError):
    """The pull request was closed, or its head is no longer the measured one. Exit 8 of `resolve`."""

    exit_code = 8


class MeasurementError(EvenbenchError):
    """One case could not be measured; the launch goes on with the next. `kind` goes into the failure record."""

    kind = "runtime"


class SetupError(MeasurementError):
    """The case function raised, or did not return a Bench."""

    kind = "setup"


class RuntimeFailure(MeasurementError):
    """The timed call raised."""

    kind = "runtime"


class OutOfMemory(MeasurementError):
    """No memory left for this case."""

    kind = "out-of-memory"


class WrongResult(MeasurementError):
    """An implementation's result differs from the reference by more than the case's tolerances."""

    kind = "wrong"


class InputsChanged(MeasurementError):
    """An implementation wrote to inputs that it shares."""

    kind = "wrong"


class TimerUnavailable(MeasurementError):
    """The requested timer does not work here; the message names the cause and the fix."""

    kind = "timer"


class ColdProbeFailed(MeasurementError):
    """The cache step does not empty the cache, so that no row may be called cold."""

    kind = "timer"


class RecordsLost(MeasurementError):
    """CUPTI dropped records: the iterations ran, their readings were lost."""

    kind = "records-lost"


class OffThreadLaunch(MeasurementError):
    """A thread that did not push our correlation id launched a kernel."""

    kind = "attribution"


class NoDeviceWork(MeasurementError):
    """An iteration launched nothing that counts."""

    kind = "attribution"


class AttributionForged(MeasurementError):
    """The correlation ids were pushed, popped or reused by timed code."""

    kind = "attribution"


class SamplesRejected(MeasurementError):
    """More samples failed validation than a measurement may lose."""

    kind = "attribution"
