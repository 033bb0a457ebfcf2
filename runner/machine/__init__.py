"""The package evenbench.runner.machine."""
