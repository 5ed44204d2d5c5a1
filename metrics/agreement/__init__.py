"""Disagreements of Slurm and Kubernetes about nodes, and which of them lagged."""
