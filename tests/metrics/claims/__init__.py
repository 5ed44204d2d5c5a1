"""Tests of metrics/claims."""
