"""Tests of metrics/ledger."""
