"""Accounting: rows of sacct, as text or JSON, to attempts."""
