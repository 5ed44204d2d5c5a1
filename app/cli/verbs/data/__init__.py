"""The verbs that fill, correct and read the warehouse."""
