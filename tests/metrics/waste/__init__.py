"""Tests of metrics/waste."""
