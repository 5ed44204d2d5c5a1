"""Questions about training runs and their attempts."""
