"""Grafana boards that query published tables by SQL, one a file; `dashboards.build` finds them."""
