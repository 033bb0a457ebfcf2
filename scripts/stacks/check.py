"""Imports a stack and holds it against the versions that the Dockerfile names. The image's build runs it.

    python check.py STACK PYTHON TORCH CUDA CUPTI_PYTHON CUPTI

No GPU and no driver are needed. Ends with code 1, and a line for each mismatch, where the stack is not what was named.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

# The files of CUPTI that each way of loading it maps, and the version that CUPTI itself says.
TORCH = "import torch"
CUPTI = "from cupti import cupti; cupti.get_version()"
MAPPED = """
import ctypes, json
paths = sorted({line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps") if "/libcupti.so" in line})
def asked(path):
    number = ctypes.c_uint32()
    ctypes.CDLL(path).cuptiGetVersion(ctypes.byref(number))
    return number.value
print(json.dumps({path: asked(path) for path in paths}))
"""
KERNEL = "#include <cub/cub.cuh>\n__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n"


def main(stack: str, python: str, torch: str, cuda: str, cupti_python: str, cupti: str) -> int:
    """Print what is there, then what is wrong with it; the exit code."""
    found = {"python": ".".join(platform.python_version_tuple()[:2]), **torch_says()}
    named = {"python": python, "torch": torch, "cuda": cuda}
    if stack == "cpu":
        named["cuda"] = "none"
    else:
        found |= {"cupti-python": version("cupti-python"), "libcupti": version("nvidia-cuda-cupti")}
        named |= {"cupti-python": cupti_python, "libcupti": cupti}
    wrong = [
        f"{name} is {found[name]}, the Dockerfile names {want}" for name, want in named.items() if found[name] != want
    ]
    if stack != "cpu":
        wrong += cupti_mismatches()
    if stack == "cuda-devel":
        wrong += compiler_mismatches(cuda)
    for name, value in found.items():
        print(f"{name} {value}")
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 1 if wrong else 0


def torch_says() -> Mapping[str, str]:
    """The versions of torch, without the tail that names its build, and of the CUDA that it was built for."""
    import torch

    return {"torch": torch.__version__.partition("+")[0], "cuda": torch.version.cuda or "none"}


def cupti_mismatches() -> Iterator[str]:
    """Which libcupti torch's profiler loads, and cupti-python, and both together: it must be one file."""
    ways = {"torch": TORCH, "cupti-python": CUPTI, "both": f"{TORCH}; {CUPTI}", "both, turned": f"{CUPTI}; {TORCH}"}
    loaded = {}
    for name, code in ways.items():
        done = subprocess.run(
            [sys.executable, "-B", "-c", f"{code}{MAPPED}"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            yield f"{name}: {done.stderr.strip().splitlines()[-1]}"
            continue
        loaded[name] = json.loads(done.stdout)
        for path, number in loaded[name].items():
            print(f"{name} loads {path}, CUPTI {number}")
        if len(loaded[name]) != 1:
            yield f"{name}: loads {len(loaded[name])} files of libcupti"
    if len({tuple(files) for files in loaded.values()}) > 1:
        yield "torch and cupti-python load different files of libcupti"


def compiler_mismatches(cuda: str) -> Iterator[str]:
    """Whether nvcc is of the CUDA that torch was built for, compiles a kernel, and links it against CUDA's run time."""
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout
    if f"release {cuda}," not in said:
        yield f"nvcc is not of CUDA {cuda}: {said.strip() or 'it says nothing'}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(KERNEL, encoding="utf-8")
        command = ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", "-L/usr/local/cuda/lib64", source]
        done = subprocess.run([*command, "-o", source.with_suffix(".so")], capture_output=True, text=True, check=False)
        if done.returncode:
            yield f"nvcc: {(done.stdout + done.stderr).strip()}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
