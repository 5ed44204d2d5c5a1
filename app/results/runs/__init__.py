"""Runs, their logs, and the numbers of a run."""
