"""Goodput: of a ledger's GPU-time, and of a job's steps as Google's library has it."""
