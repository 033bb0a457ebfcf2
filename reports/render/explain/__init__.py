"""Why a row has its verdict, as text for a terminal.

`row` explains a row of a comparison, `run` the numbers of one side. They are made of `reasons` (the tests, their p values
and bounds), `row_rounds` with `text_plot` (launch by launch), `kernel_sides`, `histogram`, and `evidence` (what launches
reported of their instrument and device).
"""
