"""Grafana boards of what Trackside exports: the list of metrics, the boards, their checks and what loads them."""
