"""How large it may be: `scale` (10,000 cases), `files` (a large results file), `history` over years (`made_history`), `two_gpus`."""
