"""A verdict → one comment and one check run on GitHub. The only package that speaks to GitHub.

`events` reads the payload that started the workflow; `pull_request` resolves which pull request it means; `outcome` words
the state and the check; `publish` writes both, once, and edits them afterwards. Its parts are `check_run`, `check_shares`
(what one check run says of several pull requests of its commit) and `accepted` (the label that accepts a regression).
`client` is the small client of GitHub's REST API.
"""
