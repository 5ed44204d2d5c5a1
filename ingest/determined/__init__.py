"""Determined.AI: which task had how many slots, and when, as its master exports it."""
