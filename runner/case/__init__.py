"""The package evenbench.runner.case."""
