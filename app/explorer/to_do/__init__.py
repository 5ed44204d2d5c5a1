"""What a person should do: the costliest causes, what slowed jobs down, as lists with pages and commands."""
