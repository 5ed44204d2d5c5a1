"""The Grafana boards: one file each, found by `dashboards.build`."""
