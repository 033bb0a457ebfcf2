"""Start of the command as ``python -m runner.cli``."""

import sys

from .main import main

if __name__ == "__main__":
    sys.exit(main())
