"""The package evenbench.runner.process."""
