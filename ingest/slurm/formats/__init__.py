"""Slurm's notations: columns, node lists, TRES, timestamps, JSON answers."""
