"""The package evenbench.runner.execute."""
