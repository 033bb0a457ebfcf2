"""The package evenbench.reports.render."""
