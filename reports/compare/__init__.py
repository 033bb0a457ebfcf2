"""Rows → `Comparison` or `Report`: every row with its verdict and reason, then what these amount to. Pure.

`compare` judges two sides that were measured in rounds; a row's verdict is decided here, by the numbers of `statistics`.
`report` does the same for a run of one side; `diff` with `stored` for two runs that did not run side by side; `confirm`
joins a second run. `expectations` checks committed figures and `proposals` suggests them. `open_cases` names the cases
that another look may still decide. `known_truth` says what kind of run it is, and what an A/A run, a planted change or a
control proved.
"""
