"""The record of a committed figure that a row of the run must meet."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from ..config.expectations import VALUE_MAX, VALUE_MIN, Metric
from .fields import CaseId, Name, ShortName
from .header import Record


class ExpectationEvent(Record):
    """A figure of expectations.yaml about a case of side `head`, whatever model it holds for."""

    event: Literal["expectation"] = "expectation"
    device: Annotated[str, StringConstraints(min_length=1, max_length=1_024)]
    case: CaseId
    implementation: ShortName
    metric: Metric
    value: Annotated[float, Field(ge=VALUE_MIN, le=VALUE_MAX)]
    rtol: Annotated[float, Field(ge=0, lt=1)]
    atol: Annotated[float, Field(ge=0, le=VALUE_MAX)] = 0.0
    measured: Name
    by: Name
