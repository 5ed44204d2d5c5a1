"""Training loops that run inside jobs of the lab: each is copied beside its job."""
