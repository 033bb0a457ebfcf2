"""The package evenbench.cli.verbs."""
