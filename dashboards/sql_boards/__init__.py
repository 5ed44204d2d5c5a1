"""Grafana boards that ask published tables by SQL, one a file; `dashboards.build` finds them."""
