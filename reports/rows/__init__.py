"""`Results` → rows: one for each case and implementation, with what became of it on each side. Pure.

Read `side_row` (one side of a row, and whether two sides can be compared), then `pair` (two sides, before they are judged
and after: the last word on a row's verdict) and `outcome` (the frozen records of raw numbers that every format renders,
second runs and expectations included). The rest belongs to a row: `times`, `losses` (why launches gave no number), `roofline` (its share of the
device's peak), `notes` (what helps a reader to judge it). `run_facts` and `commitments` (generated texts and
expectations) belong to the whole run.
"""
