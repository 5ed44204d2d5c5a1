"""Telemetry: DCGM, node and Slurm exporters, from servers that speak Prometheus' API and from files."""
