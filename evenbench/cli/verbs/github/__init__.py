"""The package evenbench.cli.verbs.github."""
