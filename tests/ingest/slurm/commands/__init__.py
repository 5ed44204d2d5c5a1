"""Tests of ingest/slurm/commands."""
