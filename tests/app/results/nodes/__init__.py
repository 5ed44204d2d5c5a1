"""Tests of app/results/nodes."""
