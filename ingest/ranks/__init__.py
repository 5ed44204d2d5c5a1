"""Ranks: what every rank of a training run computed and how long it waited, from files that each node writes."""
