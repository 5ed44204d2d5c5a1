"""Mappings: which metric of which exporter is which quantity, in TOML."""
