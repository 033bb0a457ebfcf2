import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Mean cross-entropy of logits against class indices."""
    logits = torch.randn(p.tokens, p.vocab, dtype=getattr(torch, p.dtype), device=device)
    targets = torch.randint(p.vocab, (p.tokens,), device=device)

    def reference():
        wide = logits.double()
        top = wide.amax(-1)
        log_of_sum = top + (wide - top[:, None]).exp().sum(-1).log()
        return (log_of_sum - wide.gather(-1, targets[:, None])[:, 0]).mean()

    return Bench(
        run=lambda: torch.nn.functional.cross_entropy(logits, targets),
        inputs={"logits": logits, "targets": targets},
        reference=reference,
        work=Work(  # maximum, subtract, exp, add
            dtype=p.dtype,
            flops=4 * logits.numel(),
            bytes_read=logits.nbytes + targets.nbytes,
            bytes_written=logits.itemsize,
        ),
    )


small = case("ops/cross_entropy", params={"tokens": [32], "vocab": [1000], "dtype": ["float32"]}, tags={"small"})(bench)
large = case("ops/cross_entropy", params={"tokens": [1024], "vocab": [8192, 32000], "dtype": ["float32"]}, tags={"pr"})(
    bench
)
