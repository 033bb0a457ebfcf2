"""Configuration: suites.yaml and the command line → resolved settings, in which nothing is left open.

`suites` reads the file, `settings` holds what a run resolved to, `keys` names every key with its bounds, `safe_yaml`
loads bounded YAML. `reports` uses this package too, so it imports nothing heavy.
"""

from __future__ import annotations

from .keys import FAIL_ON
from .settings import Measure, RunSettings, select
from .suites import Config, Mute, Suite, load, muted, parse, resolve

__all__ = [
    "FAIL_ON",
    "Config",
    "Measure",
    "Mute",
    "RunSettings",
    "Suite",
    "load",
    "muted",
    "parse",
    "resolve",
    "select",
]
