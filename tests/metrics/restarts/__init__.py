"""Tests of metrics/restarts."""
