"""The lake: one catalogue for the warehouses of many clusters, with their rows as Parquet files in one place."""
