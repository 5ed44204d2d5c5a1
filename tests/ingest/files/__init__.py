"""Tests of ingest/files."""
