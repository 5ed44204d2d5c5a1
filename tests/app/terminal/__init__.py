"""Tests of app/terminal."""
