"""Classes of interruptions: why an attempt ended otherwise than by completing."""

CLASSES = ("infrastructure", "preemption", "planned", "timeout", "user")
