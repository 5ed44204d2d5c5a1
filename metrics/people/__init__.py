"""People: who may use the cluster, who uses it, and what their GPU-time costs."""
