"""Node samples: counters and gauges of nodes to rows."""
