"""Where Slurm and Kubernetes see a node differently, and which of them lagged."""
