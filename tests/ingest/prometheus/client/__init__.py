"""Tests of ingest/prometheus/client."""
