"""Random exploration of every property: `make fuzz`.

`make test` runs the same examples everywhere (`profiles.py`). Here each run has a seed of its own and a share of the
time for each target of `targets.py`; the exit status is not 0 if any property fails, and failing examples are kept.

A failure is mended at its cause, and its example goes to the property as an `@example`.
"""
