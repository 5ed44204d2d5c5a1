"""Reports: documents that are pure functions of data, period and claims."""
