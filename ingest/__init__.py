"""Sources, one file each: what they print is fetched by `fetch_*`, and read by `parse_*` into the columns of tables."""
