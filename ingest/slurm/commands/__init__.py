"""Access to Slurm: running its commands, slurmrestd, and what privacy settings hide."""
