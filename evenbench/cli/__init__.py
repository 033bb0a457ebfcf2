"""The command line: words → options → a call → an exit code. The only package that prints.

Read `main` first: it turns a command line into a verb, and whatever ends the verb into one line and an exit code.
`grammar` has the table of verbs and parses the command line; `verbs` holds one module a verb, each with its arguments
and its action; `steps` holds what several verbs do (make a request, measure, show, write). `parser` adapts argparse, and
`completion` writes the scripts by which a shell completes words.
"""
