"""Determined.AI: slots of each task over time, as its master exports them."""
