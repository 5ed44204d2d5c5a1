"""Tests of ingest/slurm/scheduler."""
