"""Tests of ingest/runlog."""
