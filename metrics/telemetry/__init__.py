"""Telemetry: whose a GPU's or a node's sample is, and integrals over samples."""
