-- One row is a run of a cluster: when it was, how large, and how it ended.
SELECT run_id, n_attempts, n_gpus, first_submitted_at, eligible_at, started_at, ended_at, state
FROM runs
WHERE cluster = $cluster;
