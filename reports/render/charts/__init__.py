"""The package evenbench.reports.render.charts."""
