"""The texts that cases generate, compared with the copies saved beside the case files.

`texts` compares and saves them; `stale_copies` finds copies that no case gives any more; `tree_files` reads and writes
files of a tree without following a link.
"""
