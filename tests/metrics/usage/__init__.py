"""What accounting records of the use of attempts."""
