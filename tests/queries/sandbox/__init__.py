"""Tests of queries/sandbox."""
