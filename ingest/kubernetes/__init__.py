"""Kubernetes: pods, their controllers, and the attempts that follow from them."""
