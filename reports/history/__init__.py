"""Runs over time → series, change points, pages and an issue.

`rows` reduces a run to what is kept; `store` is the directory of Parquet files; `series` reads a case over time;
`change_points` finds where a level changed (pure), and `changes` picks the new ones. `text` and `site` show it.
`durations` gives the time that each case took; plans use it to spread cases over machines.
"""
