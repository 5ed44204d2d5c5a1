"""Restarts: the time from a failure to the next productive step, stage by stage."""
