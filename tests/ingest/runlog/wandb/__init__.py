"""Tests of ingest/runlog/wandb."""
