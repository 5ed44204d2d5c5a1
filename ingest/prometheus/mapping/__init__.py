"""Mappings from metrics of exporters to quantities, in TOML."""
