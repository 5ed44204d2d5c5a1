"""Tests of ingest/slurm/people."""
