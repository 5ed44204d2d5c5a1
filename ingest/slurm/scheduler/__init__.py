"""The scheduler itself: sdiag, and runaway jobs."""
