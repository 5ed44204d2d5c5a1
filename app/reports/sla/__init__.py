"""The SLA report: its values, its page, its files."""
