"""Steps of runs: who slows them, what stops them, and how they scale with size."""
