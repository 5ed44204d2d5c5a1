"""Making corrections: requests, their check against the warehouse, storing them, and their effect."""
