"""Tests of ingest/prometheus/health."""
