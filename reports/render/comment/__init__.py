"""The package evenbench.reports.render.comment."""
