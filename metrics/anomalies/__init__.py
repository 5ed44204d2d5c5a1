"""Anomalies in telemetry: GPUs and nodes that deviate from their peers, or from their own past, for hours on end."""
