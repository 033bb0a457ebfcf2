"""The command line: verbs, calls, exit code. The only package that prints, and the one place where runner meets reports.

stdout is for the answer; progress, warnings and errors go to stderr. Starts without torch.
"""
