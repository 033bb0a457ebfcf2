"""The package evenbench.starter."""
