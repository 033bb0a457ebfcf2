"""What NVRTC makes of a kernel's text: registers, spills, and the instructions that a disassembler counts. No GPU."""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMES = 3
DISASSEMBLERS = ("nvdisasm", "cuobjdump")
DISASSEMBLY_LIMIT_S = 60
REGISTERS = re.compile(r"Used (\d+) registers")
SPILLED = re.compile(r"(\d+) bytes spill stores")
ENTRY = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\(\d+\)\s+)?(\w+)\(")
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", re.MULTILINE)


@dataclass(frozen=True)
class Instructions:
    """Counts over the whole kernel, as they stand and not as they run."""

    total: int
    predicated: int
    ffma: int
    lds: int
    branches: int


@dataclass(frozen=True)
class MachineCode:
    """A compiled kernel.

    Args:
        compile_s: processor time, which other work does not stretch; the median of three, none from a cache.
        registers: of a thread; None where neither NVRTC's log nor the driver tells.
        spilled: bytes that a thread stores to memory for want of registers; those of its local memory where it is the
            driver that tells; else None.
        instructions: None where there is no disassembler.
    """

    compile_s: float
    registers: int | None
    spilled: int | None
    instructions: Instructions | None


def compile_text(text: str, architecture: str) -> MachineCode:
    """Compile three times, with the options of the cases, and look at the result."""
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(arch=architecture, std="c++17", ptxas_options=["-v"])
    spans: list[float] = []
    for _ in range(TIMES):
        log = io.StringIO()
        began = time.process_time()
        # The comment makes each text a new one, which no cache answers for.
        code = Program(f"{text}// {began}\n", "c++", options).compile("cubin", logs=log)
        spans.append(time.process_time() - began)
    said = REGISTERS.search(log.getvalue()), SPILLED.search(log.getvalue())
    registers, spilled = (int(said[0][1]), int(said[1][1])) if said[0] and said[1] else _loaded(code, text)
    return MachineCode(statistics.median(spans), registers, spilled, disassembled(bytes(code.code)))


def _loaded(code: Any, text: str) -> tuple[int, int] | tuple[None, None]:
    """Registers and local memory of a kernel as the driver has it; None where it cannot load this code."""
    from cuda.core import Device

    name = ENTRY.search(text)
    try:
        Device().set_current()
        attributes = code.get_kernel(name[1] if name else "").attributes
        values = (attributes.num_regs, attributes.local_size_bytes)
        registers, local = (int(value() if callable(value) else value) for value in values)
    except Exception:  # noqa: BLE001 - whatever cuda-core raises, and it has many ways
        return None, None
    return registers, local


def disassembled(code: bytes) -> Instructions | None:
    """The instructions of a cubin; None where no disassembler is found."""
    tool = next(_disassemblers(), None)
    if tool is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        listing = ["-c"] if tool.name == "nvdisasm" else ["-sass"]
        done = subprocess.run(
            [tool, *listing, file.name], capture_output=True, text=True, check=False, timeout=DISASSEMBLY_LIMIT_S
        )
    return counted(done.stdout) if done.returncode == 0 else None


def counted(sass: str) -> Instructions:
    """The instructions of a listing. The branch to itself that ends every kernel counts, too."""
    found = INSTRUCTION.findall(sass)
    names = [name.partition(".")[0] for _, name in found]
    return Instructions(
        total=len(found),
        predicated=sum(bool(predicate) for predicate, _ in found),
        ffma=names.count("FFMA"),
        lds=names.count("LDS"),
        branches=names.count("BRA"),
    )


def _disassemblers() -> Iterator[Path]:
    """On PATH, in CUDA's usual place, in NVIDIA's wheels, in Triton's."""
    folders = [Path("/usr/local/cuda/bin")]
    for package, inside in (("nvidia", "cu13/bin"), ("triton", "backends/nvidia/bin")):
        spec = importlib.util.find_spec(package)
        folders += [Path(root, inside) for root in (spec.submodule_search_locations or () if spec else ())]
    for name in DISASSEMBLERS:
        if on_path := shutil.which(name):
            yield Path(on_path)
        yield from (folder / name for folder in folders if (folder / name).is_file())
