"""Prometheus rules: one name for what exporters call differently, and alerts."""
