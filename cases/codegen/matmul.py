import torch

from evenbench import Bench, Implementation, Work, case

from .cuda_text import cuda_text
from .matmul_nt import Sizes, Tile, matmul_nt
from .nvrtc import can_launch, launcher
from .passes import SCHEDULES


def bench(name, sizes, tile, device):
    """The four schedules of one program, and the vendor's library beside them."""
    program = matmul_nt(name, sizes, tile)
    programs = {schedule: apply(program) for schedule, apply in SCHEDULES.items()}
    texts = {schedule: cuda_text(scheduled) for schedule, scheduled in programs.items()}
    x, w, y = (
        torch.empty(buffer.shape, device=device).uniform_(-0.1, 0.1)
        for buffer in program.buffers
        if buffer.memory == "global"
    )

    def generated(schedule):
        return Implementation(lambda: launcher(programs[schedule], texts[schedule], (x, w, y)), requires=("cuda.core",))

    return Bench(
        implementations={
            **{schedule: generated(schedule) for schedule in SCHEDULES},
            "vendor": lambda: torch.matmul(x, w.mT, out=y),
        },
        baseline="baseline" if can_launch(device) else "vendor",
        inputs={"x": x, "w": w},
        outputs={"y": y},
        reference=lambda: torch.matmul(x, w.mT),
        work=Work(
            dtype="float32",
            flops=2 * y.numel() * sizes.k,
            bytes_read=x.nbytes + w.nbytes,
            bytes_written=y.nbytes,
        ),
        artifacts={f"{name}_{schedule}.cu": text for schedule, text in texts.items()},
    )


@case(
    "codegen/dense",
    params={"B": [16], "T": [60], "I": [770], "H": [2304]},
    tags={"codegen"},
    requires=["jinja2"],
    rtol=1e-3,
    atol=1e-3,
)
def dense(p, device):
    """Y = X Wᵀ by generated kernels, of sizes that their tiles do not divide."""
    return bench("dense", Sizes(i=p.B * p.T, j=p.H, k=p.I), Tile(128, 128, 4), device)


@case(
    "codegen/batch_matmul_nt",
    params={"B": [16], "T": [120], "H": [768], "NH": [12]},
    tags={"codegen"},
    requires=["jinja2"],
    rtol=1e-3,
    atol=1e-3,
)
def batch_matmul_nt(p, device):
    """The same for each head of each sequence, where one tile is larger than the matrix."""
    sizes = Sizes(i=p.T, j=p.T, k=p.H // p.NH, batch=p.B * p.NH)
    return bench("batch_matmul_nt", sizes, Tile(128, 128, 8), device)
