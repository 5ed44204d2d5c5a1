"""Health events: XIDs, ECC and other signs, by rules in TOML."""
