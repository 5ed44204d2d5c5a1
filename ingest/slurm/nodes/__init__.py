"""Nodes: inventory, events, reservations, topology."""
