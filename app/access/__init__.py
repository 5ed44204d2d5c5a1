"""Users of the explorer: login, permissions, limits, and the log of their requests."""
