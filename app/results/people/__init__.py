"""Results about people: what they used, what it cost, and who may use the cluster."""
