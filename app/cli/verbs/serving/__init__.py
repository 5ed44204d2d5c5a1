"""The verbs that keep Trackside running, and show its numbers to others."""
