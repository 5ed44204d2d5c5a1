"""Tests of ingest/prometheus/live."""
