"""Tests of ingest/prometheus/files."""
