"""Numbers for pages and monitoring: so many readers at once, each answer made once of a data version."""
