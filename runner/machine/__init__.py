"""The machine: `gpus` (which there are, and which a run uses), `locks` (which keep two runs off one GPU), `doctor`."""
