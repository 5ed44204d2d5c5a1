"""Tests of ingest/slurm/formats."""
