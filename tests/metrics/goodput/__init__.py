"""Tests of metrics/goodput."""
