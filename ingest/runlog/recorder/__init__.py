"""The run-log recorder: one file that training loops copy. It is read as text here, never imported by Trackside."""
