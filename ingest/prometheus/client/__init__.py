"""The client: HTTP, remote read, VictoriaMetrics' export, splitting and retrying of queries."""
