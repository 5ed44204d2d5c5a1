"""Output for people: the terminal, its width and colours, tables, texts longer than its screen."""
