"""The package evenbench.reports.render.terminal."""
