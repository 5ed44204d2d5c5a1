"""Tests of dashboards/rules."""
