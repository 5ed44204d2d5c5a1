"""Tests of ingest/slurm/nodes."""
