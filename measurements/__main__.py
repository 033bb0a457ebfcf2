"""Start of the measuring commands: ``python -m measurements FIGURE``, or `scripts/prove FIGURE`."""

from __future__ import annotations

import sys

from measurements.figures import main

if __name__ == "__main__":
    sys.exit(main())
