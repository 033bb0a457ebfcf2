"""Rows → `Comparison` or `Report`: every row with its verdict and reason, then what these amount to. Pure.

`compare` judges two sides that were measured in rounds. It puts each row's verdict together from two places: the tests
of ``statistics/decision.py``, and ``rows/pair.py`` for failures and for rows that cannot be judged.
`report` does the same for a run of one side; `diff` with `stored` for two runs that did not run side by side; `confirm`
joins a second run. `expectations` checks committed figures and `proposals` suggests them. `open_cases` names the cases
that another look may still decide. `known_truth` says what kind of run it is, and what an A/A run, a planted change or a
control proved.
"""
