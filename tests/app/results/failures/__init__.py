"""Tests of app/results/failures."""
