"""The verbs that explain Trackside, check it and try it out."""
