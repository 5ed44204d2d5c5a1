"""Tests of metrics/scaling."""
