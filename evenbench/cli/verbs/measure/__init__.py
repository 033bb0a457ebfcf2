"""The verbs that measure, or show what would be measured.

`compare` measures two versions alternately and prints the table; `run` measures one checkout; `list_cases` prints the ids.
"""
