"""Series: labels, hosts, samples gathered by series."""
