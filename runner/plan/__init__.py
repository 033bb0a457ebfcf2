"""The package evenbench.runner.plan."""
