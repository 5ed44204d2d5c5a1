"""Tests of ingest/prometheus/node."""
