"""Claims: what was promised, measured within its scope, and judged."""
