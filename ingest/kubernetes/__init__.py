"""Kubernetes: pods and what controls them, and the attempts that follow."""
