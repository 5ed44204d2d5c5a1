"""SQL boards and the tables that they read."""
