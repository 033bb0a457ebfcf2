"""The package evenbench.reports.statistics."""
