"""Tests of ingest/prometheus/mapping."""
