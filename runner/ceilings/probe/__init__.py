"""The process that measures ceilings: a device goes in, one line of JSON comes out.

`peaks` finds them all, five times over, with the pure `benchmarker`; `probes` says what a device offers, `curve` at which
sizes. `cuda` (with `gemm` and the texts of `kernels`) and `host` are the two devices; `clocks` times their launches.
"""
