"""Bytes of results files → `Results`, or `UntrustedInput` that says what is wrong.

Read `results` first: it loads files, merges shards and joins lines by case. `file` opens one file, whatever it may be;
`lines` checks that every line refers to lines before it; `packed` keeps measurements in little memory. `proofs` reads the
lines that runs of known truth leave behind (A/A, planted changes, controls).
"""
