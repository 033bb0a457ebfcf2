"""The package evenbench.cli.verbs.measure."""
