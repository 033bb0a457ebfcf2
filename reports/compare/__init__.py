"""The package evenbench.reports.compare."""
