"""Claims: promised numbers, and whether the data refute them."""
