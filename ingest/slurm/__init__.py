"""Slurm: what its commands, slurmrestd and slurmdbd report."""
