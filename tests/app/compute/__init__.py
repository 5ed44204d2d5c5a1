"""Tests of app/compute."""
