"""Tests of app/results/runs."""
