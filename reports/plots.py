"""The library that draws charts in a page: Vega-Lite with Vega and Vega-Embed, out of a package that holds them."""

from __future__ import annotations

from runner.errors import UsageError

GIVES = "window.vegaEmbed = vegaEmbed;"


def library() -> str:
    """The script, which needs nothing else and gives `vegaEmbed`. Raises UsageError where the package is missing."""
    try:
        from vl_convert import javascript_bundle
    except ImportError:
        raise UsageError("--format html needs vl-convert-python", "pip install 'evenbench[html]'") from None
    return javascript_bundle(GIVES)
