"""Telemetry in files: OpenMetrics text and Parquet."""
