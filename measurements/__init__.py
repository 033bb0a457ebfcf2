"""What evenbench promises about itself, measured: one folder a chapter of docs/measurements.md.

A name of a figure goes in, tables come out, and exit code 0 where the promise was kept. `figures` has the grammar of
`python -m measurements` and the figures of the suite; `all_gpu` runs those that need a GPU, one after the other; `parts`
runs each part of a figure in a process of its own; `document` puts what a command printed into its block of the page. `instrument` measures the timers, `verdicts` the error rates, `kernels`
ceilings, generated kernels and expectations, `size` large runs and histories, `faults` what injected faults cost. `cases`
holds the cases that are measured for it. `pictures` draws what a comment and a page look like.
"""
