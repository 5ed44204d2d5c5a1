"""The ledger: where every GPU-second of every node goes, once, and on what evidence."""
