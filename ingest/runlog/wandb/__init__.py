"""Logs that Weights & Biases keeps on disk: `run-ID.wandb` below `offline-run-*` or `run-*`."""
