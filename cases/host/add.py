import numpy as np

from evenbench import Bench, Work, case


@case("host/add", params={"n": [1 << 16, 1 << 20]}, tags={"host"}, device="cpu", rtol=0, atol=0)
def add(p, device):
    """Elementwise sum into an array made beforehand: outputs= shows that all of it was written."""
    x, y = np.random.default_rng(0).standard_normal((2, p.n))
    out = np.empty_like(x)
    return Bench(
        run=lambda: np.add(x, y, out=out),
        inputs={"x": x, "y": y},
        outputs={"out": out},
        reference=lambda: np.array([one + other for one, other in zip(x.tolist(), y.tolist(), strict=True)]),
        work=Work(dtype="float64", flops=p.n, bytes_read=x.nbytes + y.nbytes, bytes_written=out.nbytes),
    )
