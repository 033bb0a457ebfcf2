"""The package evenbench.reports.history."""
