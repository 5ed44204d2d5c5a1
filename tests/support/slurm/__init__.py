"""What tests of Slurm share: jobs as text and as answers, a Slurm of their own, and what is true of them."""
