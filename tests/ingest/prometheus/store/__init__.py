"""Tests of ingest/prometheus/store."""
