"""Telemetry: DCGM, node and Slurm exporters, from servers with Prometheus' API and from files."""
