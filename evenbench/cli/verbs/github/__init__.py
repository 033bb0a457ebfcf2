"""The verbs of a workflow on GitHub.

`init` writes the workflow files; `plan` decides whether a pull request is worth measuring, and by how many machines;
`publish` posts the results to the pull request, and resolves which pull request an event means.
"""
