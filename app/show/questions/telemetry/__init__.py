"""Questions that telemetry answers."""
