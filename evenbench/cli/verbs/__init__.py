"""The verbs of the command line, one module each: its arguments, and the function that does it.

`measure` (compare, run, list), `judge` (report, watch, diff, expect), `github` (init, plan, publish, resolve), `machine`
(ceilings, doctor) and `history`. A verb imports steps, never another verb.
"""
