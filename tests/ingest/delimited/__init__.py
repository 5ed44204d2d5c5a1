"""Tests of ingest/delimited."""
