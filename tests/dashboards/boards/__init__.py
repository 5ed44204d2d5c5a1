"""Tests of dashboards/boards."""
