"""What a case may give as generated texts: names that are safe as file names everywhere, and bounded texts.

Loaded in launches by `evenbench.runner.case`, and by the driver, which trusts no launch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..errors import CaseError

NAME_LENGTH = 128  # characters of a name, at most
NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=,-]{0,127}")  # no folder, no hidden file, nothing a shell obeys
ARTIFACTS_MAX = 100  # of one case
TEXT_MAX = 900_000  # bytes of a text as JSON has it: a line of a launch holds 1 MiB
FOLDER = "artifacts"  # beside the case file; discovery leaves it out


def check_artifacts(artifacts: Mapping[str, str]) -> None:
    """Raises CaseError for a name that is no plain file name, or a text that is none or too long."""
    if not isinstance(artifacts, Mapping):
        raise CaseError(f"artifacts= must be a dict of file name → text, not {type(artifacts).__name__}")
    if len(artifacts) > ARTIFACTS_MAX:
        raise CaseError(f"artifacts= holds {len(artifacts)} texts, more than {ARTIFACTS_MAX}")
    for name, text in artifacts.items():
        if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
            raise CaseError(
                f"artifact name {str(name)[:200]!r} must be a plain file name, matching {NAME_PATTERN.pattern}",
                'such as "gemm_128x128.cu"; it stands in artifacts/ beside the case file',
            )
        if not isinstance(text, str):
            raise CaseError(f"artifact {name!r} must be text, not {type(text).__name__}")
        if encoded_size(text) > TEXT_MAX:
            raise CaseError(f"artifact {name!r} is longer than {TEXT_MAX} bytes as JSON has it", "split it up")


def encoded_size(text: str) -> int:
    """Bytes of a text as a line of JSON holds it: never less than as UTF-8."""
    return len(json.dumps(text))
