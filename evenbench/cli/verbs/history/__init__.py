"""The package evenbench.cli.verbs.history."""
