"""Start of the command: ``evenbench``, or ``python -m evenbench``. Catches a Ctrl-C that comes while all else is imported."""

from __future__ import annotations

import signal
import sys

from evenbench.runner.errors import EXIT_INTERRUPTED


def main() -> int:
    """Entry point of the console script. Returns the exit code."""
    try:
        from .cli.main import main as run
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return EXIT_INTERRUPTED
    code = run()
    if code == EXIT_INTERRUPTED:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the interpreter, as it ends, would let the next one kill it
    return code


if __name__ == "__main__":
    sys.exit(main())
