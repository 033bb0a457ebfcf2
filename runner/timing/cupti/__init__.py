"""The CUPTI timer: device-busy time from the device's own activity records.

`timer` is the instrument; `recorder` makes CUPTI record; `attribution` assigns records to iterations (pure); `demangle`
spells kernels' names; `selftest` proves the timer before every run, by kernels of known length from `driver`.
"""
