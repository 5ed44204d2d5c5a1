"""GPU samples: from readings of exporters to rows."""
