"""Placement: how many blocks or switches attempts span, how few they could have, and what that costs."""
