"""Delimited text: blocks of rows, headers, torn and misaligned rows."""
