"""Telemetry in the warehouse: merging samples, hourly roll-ups."""
