"""Tests of metrics/runs."""
