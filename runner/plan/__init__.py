"""A request → which cases run, in which order, on which machine.

`request` says what a person wants and what follows from it before anything is measured. `selection` finds the cases of
each side and chooses among them: which cases a run measures is decided here. `plan` orders rounds, sides and cases, and
`balance` spreads cases over machines and GPUs; both are pure and seeded. `changed` decides whether a pull request is worth
measuring, `planting` names the case that is slowed on purpose, `expectations` reads the figures a run must meet.
"""
