"""Tests of app/results."""
