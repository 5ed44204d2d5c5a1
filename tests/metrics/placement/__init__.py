"""Tests of the metrics of placement."""
