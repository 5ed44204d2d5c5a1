"""The verbs that compute numbers, answer questions and report."""
