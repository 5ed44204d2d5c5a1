"""Tests of app/cli/sources: what a source is given."""
