"""The package evenbench.runner.launchers."""
