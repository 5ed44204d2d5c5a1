"""Prices for the demo: without any, `trackside show cost` has GPU-hours alone."""

from __future__ import annotations

PRICES = "prices.toml"
"""File of the demo's folder that has them."""

EXAMPLE_PRICES = """\
# Invented prices, for `trackside show cost` on the demo.
[cost]
currency = "EUR"
pue = 1.25

[[cost.prices]]
gpu_model = "h100"
per_gpu_hour = 2.50

[[cost.prices]]
gpu_model = "h100"
since = 2026-10-01
per_gpu_hour = 2.00

[[cost.grid]]
kg_per_kwh = 0.35
"""
"""A configuration with a price that changes within the simulated time."""
