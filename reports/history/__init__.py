"""Runs over time → series, change points, pages and an issue.

`rows` reduces a run to what is kept; `store` is the directory of Parquet files; `series` reads a case over time;
`change_points` finds where a level changed (pure), and `changes` says what of that is new. `text` and `site` show it.
`durations` says how long each case took, by which cases are spread over machines.
"""
