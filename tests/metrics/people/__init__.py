"""Tests of the metrics of people."""
