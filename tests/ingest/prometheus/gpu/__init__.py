"""Tests of ingest/prometheus/gpu."""
