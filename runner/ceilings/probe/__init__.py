"""The package evenbench.runner.ceilings.probe."""
