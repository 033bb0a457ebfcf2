"""The package evenbench.cli.steps."""
