"""The verbs about the machine that measures.

`doctor` reports whether it is fit; `ceilings` measures what its device can reach.
"""
