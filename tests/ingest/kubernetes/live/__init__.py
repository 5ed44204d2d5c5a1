"""Kubernetes, read live."""
