"""Tests of metrics/telemetry."""
