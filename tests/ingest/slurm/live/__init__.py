"""Tests of ingest/slurm/live."""
