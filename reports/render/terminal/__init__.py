"""Tables for a terminal.

`terminal` writes the table of a comparison or of a run, `ceilings` that of a device's peaks, beside the figures that the
vendor states (`vendor`). `lines` turns what rich draws into lines of text.
"""
