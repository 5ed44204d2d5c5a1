"""The manual and help in the terminal."""
