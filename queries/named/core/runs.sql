-- One row is a run of a cluster that had time in the window, waiting included.
SELECT * FROM runs
WHERE cluster = $cluster
  AND LEAST(started_at, COALESCE(eligible_at, first_submitted_at)) < $until
  AND COALESCE(ended_at, $until) >= $since
ORDER BY n_gpus DESC, started_at, run_id;
