"""The package evenbench.cli.verbs.machine."""
