"""`Comparison` or `Report` → text, pages, pictures and data. Foreign text is escaped here, for each format in its own way.

`wording` has the words and numbers that every format shows. Then one folder a format: `terminal`, `comment` (Markdown for
GitHub), `explain` (why a row has its verdict), `charts`, `page` (one HTML file), `data` (JSON, CSV, Parquet).
"""
