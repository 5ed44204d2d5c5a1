"""Questions about users and accounts: what they use, waste and cost."""
