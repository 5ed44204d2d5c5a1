"""Tests of app/claims."""
