"""Everything that touches the outside on purpose: command line, configuration, computing, showing."""
