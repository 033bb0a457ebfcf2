"""Imports a stack and holds it against the versions that the Dockerfile names. The image's build runs it.

    python check.py STACK PYTHON TORCH CUDA CUPTI_PYTHON CUPTI

No GPU and no driver are needed. Ends with code 1, and a line for each mismatch, where the stack is not what was named.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import files, version
from pathlib import Path

# What each way of loading CUPTI maps. cupti-python loads it at the first call, and only beside a driver: of that there is
# a stand-in, which says its version and nothing more.
TORCH = "import torch"
CUPTI = "from cupti import cupti; cupti.get_last_error()"
MAPPED = """
import json
print(json.dumps(sorted({line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps") if "/libcupti.so" in line})))
"""
DRIVER = "int cuDriverGetVersion(int *version) { *version = 13000; return 0; }"
LOCK = Path(__file__).with_name("stack.txt")  # as the Dockerfile lays it
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
    wrong += unmet()
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
    """Whether torch's profiler, cupti-python, and both in turn, load the one libcupti that is locked."""
    own = {str(Path(str(file.locate())).resolve()) for file in files("nvidia-cuda-cupti") or ()}
    ways = {"torch": TORCH, "cupti-python": CUPTI, "both": f"{TORCH}; {CUPTI}", "both, turned": f"{CUPTI}; {TORCH}"}
    with tempfile.TemporaryDirectory() as folder:
        compiler = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder}/libcuda.so.1"]
        subprocess.run(compiler, input=DRIVER, text=True, check=True)
        for name, code in ways.items():
            done = said([sys.executable, "-B", "-c", f"{code}{MAPPED}"], LD_LIBRARY_PATH=folder)
            if done.returncode:
                yield f"{name}: {done.stderr.strip().splitlines()[-1]}"
                continue
            loaded = json.loads(done.stdout.splitlines()[-1])
            print(f"{name}: loads {', '.join(loaded) or 'no libcupti'}")
            if len(loaded) != 1 or str(Path(loaded[0]).resolve()) not in own:
                yield f"{name}: loads {loaded}, not the one libcupti of nvidia-cuda-cupti {version('nvidia-cuda-cupti')}"


def unmet() -> Iterator[str]:
    """What pip would miss where something is installed that needs the stack."""
    names = [line.split()[0] for line in LOCK.read_text(encoding="utf-8").splitlines() if "==" in line]
    done = said([sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--quiet", *names])
    if done.returncode:
        yield f"pip: {done.stderr.strip()}"


def said(command: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it says."""
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)


def compiler_mismatches(cuda: str) -> Iterator[str]:
    """Whether nvcc is of the CUDA that torch was built for, compiles a kernel, and links it against CUDA's run time."""
    release = said(["nvcc", "--version"]).stdout
    if f"release {cuda}," not in release:
        yield f"nvcc is not of CUDA {cuda}: {release.strip() or 'it says nothing'}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(KERNEL, encoding="utf-8")
        library = ["-o", str(source.with_suffix(".so")), "-L/usr/local/cuda/lib64"]
        done = said(["nvcc", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", *library, str(source)])
        if done.returncode:
            yield f"nvcc: {(done.stdout + done.stderr).strip()}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
