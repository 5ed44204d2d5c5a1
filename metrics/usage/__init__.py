"""What attempts used of the CPUs, memory and GPUs that they held, by the records of accounting alone."""
