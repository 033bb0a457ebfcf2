"""What other programs read.

`json` has a schema version and raw numbers under their published names; `rows` writes CSV and the formats of other tools;
`parquet` writes the same rows through DuckDB.
"""
