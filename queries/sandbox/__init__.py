"""A person's SQL: one SELECT on the published copy, in a process of its own with nothing else within reach."""
