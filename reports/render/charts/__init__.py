"""Charts as Vega-Lite specifications, and pictures of them.

`values` has the numbers that the page's charts show; `roofline` draws a device's peaks with the cases on them, from the
`parts` and `axes` that charts share. `picture` writes SVG or PNG; `vega` finds the library.
"""
