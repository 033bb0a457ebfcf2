"""Start of a worker process: load the runner's folder under the name ``evenbench``, whatever the user's tree holds.

Run as ``python -P …/runner/worker/__main__.py [launch|alone]``: without an argument the warm parent, with ``launch`` one
plain launch, with ``alone`` the warm parent of a container, which ends all else in it when a launch has ended.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def load_evenbench() -> None:
    """Make `evenbench` importable from this folder; `runner`, `cases` and `reports` stay the user's own names."""
    folder = Path(__file__).resolve().parent.parent
    spec = importlib.util.spec_from_file_location(
        "evenbench", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None  # noqa: S101 - the file is this one's neighbour
    assert spec.loader is not None  # noqa: S101 - as above
    module = importlib.util.module_from_spec(spec)
    sys.modules["evenbench"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    load_evenbench()
    from evenbench.worker.parent import main  # type: ignore[import-not-found]  # the name exists only here

    sys.exit(main(sys.argv[1:]))
