"""What tests of run logs share: logs as frameworks write them, and what their loops knew."""
