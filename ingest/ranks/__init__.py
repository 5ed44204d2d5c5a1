"""Ranks: how long every rank of a training run computed and waited, from files that each node writes."""
