"""Who asks, what they may see and change, and the log of it."""
