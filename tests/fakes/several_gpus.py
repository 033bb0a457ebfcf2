"""A machine that lists GPUs it does not have: programs and modules that answer as NVIDIA's would, for real runs.

Launches there find no accelerator, so that cases for a device run on the host's clock, each chain at its own GPU's name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

UUIDS = ("GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc", "GPU-7e99aaaa-0000-1111-2222-333344445555")
NAME, DRIVER = "NVIDIA H200", "580.159.04"

# The fields of evenbench.runner.machine.doctor.gpu, as a GPU answers that nobody else uses.
STATE = "4, 0, Default, 1980, 1980, 0x0000000000000001, Enabled, Disabled, 0"

SMI = """#!{python} -I
import sys
if any(word.startswith("--id=") for word in sys.argv):
    print({state!r})
else:
    print("\\n".join(f"{{uuid}}, {name}, {driver}" for uuid in {uuids!r}))
"""
NVML = """
class NVMLError(Exception):
    pass

UUIDS = {uuids!r}

def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return {driver!r}
def nvmlDeviceGetCount(): return len(UUIDS)
def nvmlDeviceGetHandleByIndex(index): return UUIDS[index]
def nvmlDeviceGetUUID(handle): return handle
def nvmlDeviceGetName(handle): return {name!r}
"""


def machine(folder: Path, uuids: Sequence[str] = UUIDS) -> Mapping[str, str]:
    """The variables that make the command see these GPUs; what answers for them is put into `folder`."""
    values = {"python": sys.executable, "state": STATE, "name": NAME, "driver": DRIVER, "uuids": list(uuids)}
    (folder / "bin").mkdir(parents=True)
    (folder / "modules").mkdir()
    smi = folder / "bin" / "nvidia-smi"
    smi.write_text(SMI.format_map(values))
    smi.chmod(0o755)
    (folder / "modules" / "pynvml.py").write_text(NVML.format_map(values))
    return {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder / "modules"),
        "CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(len(uuids))),
    }
