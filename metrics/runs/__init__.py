"""Runs: which attempts are one training run, and which steps of it ran when."""
