"""What `trackside compute` does: from loaded rows to the ledger and the stored results."""
