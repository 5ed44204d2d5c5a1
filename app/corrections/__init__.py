"""Manual corrections: what a person overrules, recorded with who, when and why."""
