"""ETTR, the effective training time ratio of a run: measured and expected."""
