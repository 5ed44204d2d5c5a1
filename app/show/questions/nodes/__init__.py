"""Questions about nodes: which is slow, which fails, and how long it is away."""
