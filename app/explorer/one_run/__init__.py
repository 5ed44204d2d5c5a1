"""Parts of the page of one run: its numbers, and why its attempts ended."""
