"""The configuration: one TOML file, read once, all mistakes listed together."""
