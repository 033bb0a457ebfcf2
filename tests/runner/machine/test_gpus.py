"""Which GPU is meant, and what nvidia-smi and NVML say of them."""

from __future__ import annotations

import pytest

from evenbench.runner.errors import UsageError
from evenbench.runner.machine.gpus import Gpu, _from_csv, _from_nvml, choose_gpu, choose_gpus

FIRST = Gpu("GPU-6d786b7a-3994-ba1c-b185-f30fe02ae0bc", "NVIDIA H200", "580.159.04")
SECOND = Gpu("GPU-6d99aaaa-0000-1111-2222-333344445555", "NVIDIA H200", "580.159.04")
BOTH = [FIRST, SECOND]


@pytest.mark.parametrize(
    ("wanted", "visible", "meant"),
    [
        (None, None, FIRST),
        (None, "1", SECOND),
        (None, "1,0", SECOND),
        (None, " 1 , 0", SECOND),
        (None, SECOND.uuid, SECOND),
        (None, "GPU-6d99", SECOND),
        (None, "", None),
        (None, "-1", None),
        ("0", None, FIRST),
        ("1", "0", SECOND),  # what was asked for wins
        ("1", "", SECOND),
        ("GPU-6d78", None, FIRST),
        (FIRST.uuid, "1", FIRST),
    ],
)
def test_the_gpu_that_is_meant(wanted: str | None, visible: str | None, meant: Gpu | None) -> None:
    assert choose_gpu(wanted, BOTH, visible) == meant


@pytest.mark.parametrize(
    ("wanted", "visible", "said"),
    [
        ("2", None, "--gpu 2 does not name one GPU"),
        ("-1", None, "--gpu -1 does not name one GPU"),
        ("GPU-6d", None, "--gpu GPU-6d does not name one GPU"),
        ("h200", None, "--gpu h200 does not name one GPU"),
        (None, "7", "CUDA_VISIBLE_DEVICES 7 does not name one GPU"),
        (None, "MIG-1234", "CUDA_VISIBLE_DEVICES MIG-1234 does not name one GPU"),
    ],
)
def test_no_gpu_or_several_are_meant(wanted: str | None, visible: str | None, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose_gpu(wanted, BOTH, visible)
    assert caught.value.message == said
    assert caught.value.hint == f"this machine has 0: NVIDIA H200 {FIRST.uuid}, 1: NVIDIA H200 {SECOND.uuid}"


@pytest.mark.parametrize("visible", [None, "", "0"])
def test_a_machine_without_gpus(visible: str | None) -> None:
    assert choose_gpu(None, [], visible) is None
    with pytest.raises(UsageError, match="--gpu 0: this machine has no NVIDIA GPU"):
        choose_gpu("0", [], visible)


@pytest.mark.parametrize(
    ("wanted", "visible", "meant"),
    [
        ("all", None, BOTH),
        ("all", "1,0", [SECOND, FIRST]),
        ("all", "1", [SECOND]),
        ("all", "0,-1,1", [FIRST]),
        ("all", "GPU-6d99,GPU-6d99", [SECOND]),
        ("2", None, BOTH),
        ("1", None, [FIRST]),
        ("1", "1,0", [SECOND]),
        ("1,", None, [SECOND]),
        ("0,1", "", BOTH),  # what was asked for wins
        ("1, GPU-6d78", None, [SECOND, FIRST]),
        (SECOND.uuid, "0", [SECOND]),
    ],
)
def test_the_gpus_that_are_meant(wanted: str, visible: str | None, meant: list[Gpu]) -> None:
    assert choose_gpus(wanted, BOTH, visible) == meant


@pytest.mark.parametrize(
    ("wanted", "visible", "said"),
    [
        ("3", None, "--gpus 3: this machine has 2 visible NVIDIA GPUs"),
        ("0", None, "--gpus 0: this machine has 2 visible NVIDIA GPUs"),
        ("2", "1", "--gpus 2: this machine has 1 visible NVIDIA GPU"),
        ("all", "", "--gpus all: this machine has 0 visible NVIDIA GPUs"),
        ("all", "7", "CUDA_VISIBLE_DEVICES 7 does not name one GPU"),
        ("", None, "names no GPU"),
        ("0,0", None, "names a GPU twice"),
        ("0,GPU-6d78", None, "names a GPU twice"),
        ("0,7", None, "--gpu 7 does not name one GPU"),
        ("every", None, "--gpu every does not name one GPU"),
    ],
)
def test_no_gpus_or_others_are_meant(wanted: str, visible: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choose_gpus(wanted, BOTH, visible)


@pytest.mark.parametrize("wanted", ["all", "1", "0,1"])
def test_several_gpus_of_a_machine_without(wanted: str) -> None:
    with pytest.raises(UsageError, match="this machine has"):
        choose_gpus(wanted, [], None)


def test_the_table_of_nvidia_smi() -> None:
    rows = "".join(f"{gpu.uuid}, {gpu.name}, {gpu.driver}\n" for gpu in BOTH)
    assert _from_csv(rows) == BOTH


@pytest.mark.parametrize(
    "text", ["", "No devices were found\n", "Failed, to initialize, NVML\n", "GPU-1, NVIDIA H200\n", "GPU-1, a, b, c\n"]
)
def test_what_is_no_row_is_no_gpu(text: str) -> None:
    assert _from_csv(text) == []


class FakeNvml:
    """Two GPUs; `broken` names the call that fails."""

    class NVMLError(Exception):
        pass

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.opened = 0

    def answer(self, call: str) -> None:
        if call == self.broken:
            raise self.NVMLError(call)

    def nvmlInit(self) -> None:  # noqa: N802
        self.answer("init")
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return FIRST.driver

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(BOTH)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:  # noqa: N802
        self.answer(f"handle {index}")
        return BOTH[index]

    def nvmlDeviceGetUUID(self, handle: Gpu) -> str:  # noqa: N802
        return handle.uuid

    def nvmlDeviceGetName(self, handle: Gpu) -> str:  # noqa: N802
        return handle.name


@pytest.mark.parametrize(("broken", "found"), [("", BOTH), ("init", []), ("handle 1", [])])
def test_what_nvml_says(broken: str, found: list[Gpu]) -> None:
    nvml = FakeNvml(broken)
    assert _from_nvml(nvml) == found
    assert nvml.opened == 0
