"""People: users, accounts, QOS, associations and their changes."""
