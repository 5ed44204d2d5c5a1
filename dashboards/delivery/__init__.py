"""How boards and rules reach a Grafana and a Prometheus: its HTTP API, and Kubernetes' objects."""
