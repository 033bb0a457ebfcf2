"""Child processes, pipes and time limits, for the driver and for launches. The standard library alone.

`bounded` runs a child with bounded time and output; `channel` sends JSON lines; `patience` is a time limit that a pause
does not use up; `leftovers` ends what a launch left running; `stacks` reports where a launch was when it died or hung.
"""
