"""`trackside show`: questions, their entries and answers."""
