"""The warehouse: its schema, views, named queries and checks in SQL, and the one module that opens DuckDB."""
