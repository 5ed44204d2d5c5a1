"""Arithmetic: polars frames in, polars frames out. No files, network, clock, environment or database."""
