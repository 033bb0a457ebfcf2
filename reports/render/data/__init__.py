"""The package evenbench.reports.render.data."""
