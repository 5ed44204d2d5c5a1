"""Checkpoints: their cost, and the interval that loses least."""
