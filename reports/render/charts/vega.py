"""The library that draws charts: Vega-Lite with Vega and Vega-Embed, out of a package that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from evenbench.runner.errors import UsageError

GIVES = "window.vegaEmbed = vegaEmbed;"
SCALE = 2.0  # pixels of a picture for each of the chart's, for screens that have as many


def library(what: str = "--format html") -> str:
    """The script for a page, which needs nothing else and gives `vegaEmbed`. Raises UsageError where the package is missing."""
    bundle: str = _package(what).javascript_bundle(GIVES)
    return bundle


def svg(spec: Mapping[str, Any], what: str) -> str:
    """A Vega-Lite specification drawn as SVG. Raises UsageError where the package is missing, which `what` needs."""
    drawn: str = _package(what).vegalite_to_svg(dict(spec))
    return drawn


def png(spec: Mapping[str, Any], what: str) -> bytes:
    """The same as PNG."""
    drawn: bytes = _package(what).vegalite_to_png(dict(spec), scale=SCALE)
    return drawn


def check(what: str) -> None:
    """Raises UsageError where the package is missing. To be asked before what takes long."""
    _package(what)


def _package(what: str) -> ModuleType:
    try:
        import vl_convert
    except ImportError:
        raise UsageError(f"{what} needs vl-convert-python", "pip install 'evenbench[html]'") from None
    return vl_convert
