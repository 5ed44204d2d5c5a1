"""Tests of ingest/prometheus/series."""
