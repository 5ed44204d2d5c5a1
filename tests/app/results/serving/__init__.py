"""Tests of app/results/serving."""
