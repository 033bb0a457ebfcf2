"""Is the instrument right? `instrument` has its figures; `bias`, `costs` and `launches` their parts.

`timers` compares medians of seven kernels with `peers` and Nsight Compute; `spin` is a kernel of known length.
"""
