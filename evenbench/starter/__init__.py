"""What `evenbench init` writes into a repository: a case that works, suites.yaml and the workflow files.

`files` fills in the texts of the folder ``templates`` and writes them; it overwrites nothing without ``--force``.
"""
