import numpy as np

from evenbench import Bench, Work, case


@case("host/sort", params={"n": [1 << 14, 1 << 17]}, tags={"host"}, device="cpu", rtol=0, atol=0)
def sort(p, device):
    """Sort random numbers, copy included."""
    x = np.random.default_rng(0).standard_normal(p.n)
    return Bench(
        run=lambda: np.sort(x),
        inputs={"x": x},
        reference=lambda: np.array(sorted(x.tolist())),
        work=Work(dtype="float64", bytes_read=x.nbytes, bytes_written=x.nbytes),
    )
