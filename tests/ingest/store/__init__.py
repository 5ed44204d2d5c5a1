"""Tests of ingest/store."""
