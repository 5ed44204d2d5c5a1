"""Tests of metrics/ettr."""
