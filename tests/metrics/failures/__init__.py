"""Tests of metrics/failures."""
