"""The package evenbench.reports.render.page."""
