"""Tests of app/show."""
