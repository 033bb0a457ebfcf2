"""Prepared sides → rounds of launches → results.jsonl. The driver sees ids and records, never foreign objects.

Read `measuring` (a request to a finished file; opens and closes everything), `execute` (the driver), `preparation` (a
launch of each side builds and checks every case), `rounds` (one launch of each side, look after look) and `attempts` (one
launch: its job, how its answers become records, what a crash costs). `origins` ends a run whose sides load one copy of the
library. `chains` runs several GPUs side by side;
`resume` continues an interrupted run.
"""
