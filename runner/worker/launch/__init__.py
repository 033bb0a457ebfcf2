"""The package evenbench.runner.worker.launch."""
