"""Use of the CPUs, memory and GPUs that attempts held, by the records of accounting alone."""
