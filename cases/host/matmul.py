import numpy as np

from evenbench import Bench, Work, case


@case("host/matmul", params={"n": [128, 256]}, tags={"host"}, device="cpu", rtol=1e-9, atol=1e-9)
def matmul(p, device):
    """Product of two matrices; about a millisecond at 256 on one core.

    numpy's BLAS takes all cores it finds: set OPENBLAS_NUM_THREADS=1, or MKL_NUM_THREADS, for steadier times.
    """
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, p.n, p.n))
    return Bench(
        run=lambda: a @ b,
        inputs={"a": a, "b": b},
        reference=lambda: np.einsum("ik,kj->ij", a, b),  # without BLAS
        work=Work(dtype="float64", flops=2 * p.n**3, bytes_read=a.nbytes + b.nbytes, bytes_written=a.nbytes),
    )
