"""Input files: opened without waiting, decompressed, read ahead."""
