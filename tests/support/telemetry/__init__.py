"""What tests of telemetry share: a history as exporters showed it, health readings, Prometheus' chunks."""
