"""The package evenbench.reports.publish."""
