"""Samples of GPUs and nodes, by attempt."""
