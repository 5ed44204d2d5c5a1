"""The questions of `trackside show`: one file each."""
