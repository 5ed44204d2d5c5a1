"""Kubernetes live: list and watch at the API server."""
