"""Tests of metrics/mfu."""
