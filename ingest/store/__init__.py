"""Loads: one transaction for each input, an account of its rows, and its report."""
