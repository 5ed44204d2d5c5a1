"""Charts of the explorer: figures in one style, and those of questions."""
