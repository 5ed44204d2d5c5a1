"""The computation of `trackside compute`: from loaded rows to the ledger and the stored results."""
