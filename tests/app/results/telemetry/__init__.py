"""Results from telemetry."""
