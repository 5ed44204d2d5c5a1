"""Tests of ingest/prometheus."""
