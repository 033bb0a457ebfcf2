"""The pull-request comment and the job summary: Markdown that fits GitHub's limits.

`comment` writes it; `tables` makes the tables, what changed first; `beside` adds expectations and generated texts, for the
terminal and the page as well. `markdown` is the only place that escapes foreign text for GitHub; it
also drops rows until the whole fits (single texts are shortened before, by `comment` and ``reports/text.py``).
"""
