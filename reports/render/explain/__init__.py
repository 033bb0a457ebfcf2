"""The package evenbench.reports.render.explain."""
