"""Loads: one transaction for each input, an account of its rows, and what is reported of it."""
