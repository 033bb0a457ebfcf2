import torch

from evenbench import Bench, Implementation, Work, case

from .gpu_only import gpu_only


def eager(x, gate):
    """Two kernels, of which the second reads what the first wrote."""
    return torch.nn.functional.silu(x) * gate


def compiled(x, gate):
    """One kernel, compiled here and not in the first timed call."""
    gpu_only(x.device)
    run = torch.compile(eager, dynamic=False)
    run(x, gate)
    return lambda: run(x, gate)


def with_triton(x, gate):
    """One kernel, written by hand."""
    gpu_only(x.device)
    import triton  # here, so that no other case waits for it
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def fused(x, gate, out, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        inside = at < n
        wide = tl.load(x + at, mask=inside).to(tl.float32)
        factor = tl.load(gate + at, mask=inside).to(tl.float32)
        tl.store(out + at, wide * tl.sigmoid(wide) * factor, mask=inside)

    n, block = x.numel(), 1024

    def run():
        out = torch.empty_like(x)
        fused[(triton.cdiv(n, block),)](x, gate, out, n, block)
        return out

    run()
    return run


def bench(p, device):
    """SiLU times a gate: PyTorch's two kernels, the same compiled into one, a Triton kernel."""
    x = torch.randn(p.n, dtype=getattr(torch, p.dtype), device=device)
    gate = torch.randn_like(x)

    def reference():
        wide = x.double()
        return wide / (1 + torch.exp(-wide)) * gate.double()

    return Bench(
        implementations={
            "torch": lambda: eager(x, gate),
            "compiled": Implementation(lambda: compiled(x, gate)),
            "triton": Implementation(lambda: with_triton(x, gate), requires=("triton",)),
        },
        baseline="torch",
        inputs={"x": x, "gate": gate},
        reference=reference,
        work=Work(dtype=p.dtype, flops=5 * p.n, bytes_read=2 * x.nbytes, bytes_written=x.nbytes),  # exp counts as one
    )


small = case(
    "ops/impl/silu_mul", params={"n": [1 << 14], "dtype": ["float32"]}, tags={"impl", "small"}, rtol=1e-4, atol=1e-5
)(bench)
large = case(
    "ops/impl/silu_mul", params={"n": [1 << 20, 1 << 24], "dtype": ["float32"]}, tags={"impl"}, rtol=1e-4, atol=1e-5
)(bench)
