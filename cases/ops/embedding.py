import torch

from evenbench import Bench, Work, case


def bench(p, device):
    """Rows of a table by index, each index at most once."""
    table = torch.randn(p.vocab, p.dim, dtype=getattr(torch, p.dtype), device=device)
    tokens = torch.randperm(p.vocab, device=device)[: p.tokens]
    rows = p.tokens * p.dim * table.itemsize
    return Bench(
        run=lambda: torch.nn.functional.embedding(tokens, table),
        inputs={"table": table, "tokens": tokens},
        reference=lambda: table.gather(0, tokens[:, None].expand(-1, p.dim)),
        work=Work(dtype=p.dtype, bytes_read=rows + tokens.nbytes, bytes_written=rows),
    )


small = case(
    "ops/embedding",
    params={"vocab": [500], "dim": [64], "tokens": [100], "dtype": ["bfloat16"]},
    tags={"small"},
    rtol=0,
    atol=0,
)(bench)
large = case(
    "ops/embedding",
    params={"vocab": [32000], "dim": [2048], "tokens": [1024, 8192], "dtype": ["bfloat16"]},
    tags={"pr"},
    rtol=0,
    atol=0,
)(bench)
