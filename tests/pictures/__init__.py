"""The README's pictures, made anew from the demo: `make pictures`."""
