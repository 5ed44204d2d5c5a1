"""Slurm: reports of its commands, slurmrestd and slurmdbd."""
