-- One row is a UTC day of a cluster: the digests of what runs and interruptions were found in.
SELECT day, n_attempts, attempts, events FROM attempt_days WHERE cluster = $cluster;
