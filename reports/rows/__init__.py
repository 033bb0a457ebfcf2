"""The package evenbench.reports.rows."""
