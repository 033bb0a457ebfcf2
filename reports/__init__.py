"""Judges results and publishes the verdict: results.jsonl → load → compare → render → publish.

A file goes in, words come out. Nothing here imports torch or a case, and a file is read as hostile
bytes. The folders in the order of the line::

    `load`        bytes of results files → `Results`, or `UntrustedInput`
    `statistics`  launches of two sides → verdicts with their p values and intervals: pure numbers
    `rows`        `Results` → one row for each case and implementation, with what became of it on each side
    `compare`     rows → `Comparison` (two sides) or `Report` (one side)
    `render`      either → a terminal's text, a comment, a page, charts, JSON and other data
    `publish`     a verdict → a comment and a check run on GitHub
    `history`     runs over time → series, change points, pages

`text` cleans foreign text and `units` writes numbers, for all of them.
"""
