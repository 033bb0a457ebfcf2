import torch

from evenbench import Bench, Implementation, Work, case

from .gpu_only import gpu_only


def composed(x, weight):
    """One operation after the other, as it stands in a paper."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def compiled(x, weight):
    """The composed one, compiled here and not in the first timed call."""
    gpu_only(x.device)
    run = torch.compile(composed, dynamic=False)
    run(x, weight)
    return lambda: run(x, weight)


def with_triton(x, weight):
    """One program a row."""
    gpu_only(x.device)
    import triton  # here, so that no other case waits for it
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def normalize(x, weight, out, cols, block: tl.constexpr):
        row = tl.program_id(0) * cols
        column = tl.arange(0, block)
        inside = column < cols
        wide = tl.load(x + row + column, mask=inside, other=0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(wide * wide, 0) / cols + 1e-6)
        factor = tl.load(weight + column, mask=inside, other=0).to(tl.float32)
        tl.store(out + row + column, wide * scale * factor, mask=inside)

    rows, cols = x.shape
    block = triton.next_power_of_2(cols)

    def run():
        out = torch.empty_like(x)
        normalize[(rows,)](x, weight, out, cols, block, num_warps=8)
        return out

    run()
    return run


def bench(p, device):
    """RMS norm over the last axis: PyTorch's own, composed, composed and compiled, a Triton kernel."""
    x = torch.randn(p.rows, p.cols, dtype=getattr(torch, p.dtype), device=device)
    weight = torch.randn(p.cols, dtype=x.dtype, device=device)

    def reference():
        wide = x.double()
        return wide / (wide.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight.double()

    return Bench(
        implementations={
            "torch": lambda: torch.nn.functional.rms_norm(x, (p.cols,), weight, eps=1e-6),
            "composed": lambda: composed(x, weight),
            "compiled": Implementation(lambda: compiled(x, weight)),
            "triton": Implementation(lambda: with_triton(x, weight), requires=("triton",)),
        },
        baseline="torch",
        inputs={"x": x, "weight": weight},
        reference=reference,
        work=Work(  # square, add, scale, weight
            dtype=p.dtype, flops=4 * x.numel(), bytes_read=x.nbytes + weight.nbytes, bytes_written=x.nbytes
        ),
    )


small = case(
    "ops/impl/rms_norm",
    params={"rows": [64], "cols": [256], "dtype": ["bfloat16"]},
    tags={"impl", "small"},
    rtol=2e-2,
    atol=1e-2,
)(bench)
large = case(
    "ops/impl/rms_norm",
    params={"rows": [4096], "cols": [4096, 8192], "dtype": ["bfloat16"]},
    tags={"impl"},
    rtol=2e-2,
    atol=1e-2,
)(bench)
