"""Shares of ceilings where both were measured: none above what can be, and a false claim is caught."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from measurements.parts import ROOT

pytestmark = [pytest.mark.gpu, pytest.mark.timing, pytest.mark.slow]

CASES = ("ops/add", "ops/rms_norm", "ops/matmul", "ops/sum")  # copying, reading, multiplying, small and large


@pytest.mark.timeout(600)
def test_no_case_does_more_than_the_device_reaches(tmp_path: Path) -> None:
    # The process of these tests may hold memory of the GPU, so that for the command there is another tenant.
    options = ("--ignore-unfit", "--out", str(tmp_path))
    done = subprocess.run(
        [str(ROOT / "scripts" / "prove"), "ceilings-ops", *CASES, *options],
        env={**os.environ, "EVENBENCH_PYTHON": sys.executable},
        check=False,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "ceilings-ops" / "roofline.svg").is_file() == (find_spec("vl_convert") is not None)
