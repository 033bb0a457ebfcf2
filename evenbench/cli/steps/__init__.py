"""What several verbs of the command line do. Verbs call steps; steps know no verb.

In the order in which a verb uses them: `arguments` (options that verbs share), `requests` (options → a `Request`),
`measure` (a request → a results file, with `progress` on stderr), `confirm` (the second run of what regressed), `show`
(results → a table and an exit code), `texts` (what to do with generated texts), `export` (pages and other formats into
files), `plot` (pictures of a device's peaks). `console` is how all of them print and write files.
"""
