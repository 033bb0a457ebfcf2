"""Configuration: suites.yaml and the command line → resolved settings, in which nothing is left open.

`suites` reads the file, with the bounded YAML of `safe_yaml` and the keys and bounds of `keys`; `settings` is what holds
for a run and for a case; `expectations` reads and writes expectations.yaml.
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
