"""The package evenbench.runner.artifacts."""
