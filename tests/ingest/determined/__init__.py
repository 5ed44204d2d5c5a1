"""Tests of `ingest.determined`."""
