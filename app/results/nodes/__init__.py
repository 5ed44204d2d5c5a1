"""Nodes: what their capacity rests on, and how they fail and return."""
