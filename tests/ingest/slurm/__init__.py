"""Tests of ingest/slurm."""
