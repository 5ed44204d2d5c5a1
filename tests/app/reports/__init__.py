"""Tests of app/reports."""
