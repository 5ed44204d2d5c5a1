"""Who asks, what they may see, and the log of it."""
