"""Tests of metrics/checkpoints."""
