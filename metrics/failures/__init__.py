"""Failures: whose they are, how often they happen for the exposure, and which nodes have too many."""
