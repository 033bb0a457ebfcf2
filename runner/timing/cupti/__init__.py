"""The package evenbench.runner.timing.cupti."""
