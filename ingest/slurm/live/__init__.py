"""Slurm, live: requests by command or slurmrestd, repeated until accounting is current."""
