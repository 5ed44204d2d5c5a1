"""Waste: allocated GPU-time that was not used, and whose it was."""
