"""Logs of other frameworks, each a module that turns its lines into those of a run log (`ingest.runlog.parse`)."""
