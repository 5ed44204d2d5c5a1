"""Classes of interruptions: why an attempt ended without completing."""

CLASSES = ("infrastructure", "preemption", "planned", "timeout", "user")
