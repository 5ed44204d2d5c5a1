"""Tests of ingest/slurm/accounting."""
