"""Logs that are text with a pattern: each format is data (`*.toml`; `ingest.runlog.text_format` describes it)."""
