"""Claims: statements about the cluster, measured within their scope, and judged."""
