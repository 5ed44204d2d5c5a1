"""The command line: verbs, their options and their help."""
