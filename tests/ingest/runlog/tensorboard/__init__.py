"""Tests of ingest/runlog/tensorboard."""
