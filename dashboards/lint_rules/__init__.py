"""The rules of `dashboards.lint`: each a function from a board to what is wrong with it."""
