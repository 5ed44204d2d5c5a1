"""Claims: what somebody promised, and whether the data refute it."""
