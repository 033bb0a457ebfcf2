"""Words of what is printed for people, by launches, the driver and reports alike. Imports nothing."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 launch`` or ``3,000 launches``."""
    return f"{number:,} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"
