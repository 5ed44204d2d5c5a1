"""Tests of app/corrections."""
