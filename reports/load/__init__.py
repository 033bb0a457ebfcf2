"""The package evenbench.reports.load."""
