"""When reports are due: the decision alone, for any time; and timers of other schedulers."""
