"""What a device was measured to reach: peak rates of compute, matrix products, memory and launches.

`for_run` gives a run its ceilings: kept ones, or measured by `obtain`. `keys` says what peaks depend on, `store` keeps
them, and `probe` is the process that measures.
"""
