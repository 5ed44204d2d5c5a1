"""Questions about a cluster as a whole."""
