-- One row is how many attempts of a cluster are in runs, as runs were found last.
SELECT COUNT(*) AS n FROM run_attempts WHERE cluster = $cluster;
