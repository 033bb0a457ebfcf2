"""What a case author writes, and how a launch finds it. Needs the standard library alone; `check` uses torch where it is there.

`declare` has `@case`, `Bench`, `Implementation` and `Work`; `grid` turns parameters into ids; `artifact_names` bounds
generated texts. In a launch `discover` imports a cases directory, `check` compares a result with its reference, and
`fingerprint` hashes inputs and results.
"""
