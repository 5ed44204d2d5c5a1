"""`trackside reproduce`: published measurements, read as they are, and the published numbers beside ours."""
