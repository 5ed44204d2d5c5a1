"""Scaling: what the same recipe gains from more GPUs."""
