"""Slurm, live: which questions to ask of which transport, again and again, until accounting is current."""
