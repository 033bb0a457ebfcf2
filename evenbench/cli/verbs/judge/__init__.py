"""The package evenbench.cli.verbs.judge."""
