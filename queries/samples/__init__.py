"""Samples: tables whose rows lie in Parquet files of a day each."""
