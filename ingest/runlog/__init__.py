"""Run logs: what a training loop records of its own steps."""
