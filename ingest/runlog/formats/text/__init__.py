"""Logs that are text with a pattern: each format is data (`*.toml`; `formats.text_format` describes it)."""
