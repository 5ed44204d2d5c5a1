"""Sources of rows: `fetch_*` requests their output, and `parse_*` reads it into the columns of tables."""
