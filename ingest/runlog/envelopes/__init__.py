"""Wrappings of the lines of a log: by terminals, container runtimes, collectors and exports."""
