"""Judges results and publishes them. Never imports torch or a case, and takes a results file for hostile bytes.

::

    load → compare or measured → render (comment, terminal, JSON) → publish
"""
