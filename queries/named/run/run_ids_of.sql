-- One row is the id of a run of a user, account and partition (empty: of any) that had time in the window.
SELECT run_id
FROM runs
WHERE cluster = $cluster
  AND COALESCE(started_at, eligible_at, first_submitted_at) < $until
  AND COALESCE(ended_at, $until) >= $since
  AND $user IN ('', "user")
  AND $account IN ('', account)
  AND $partition IN ('', "partition")
ORDER BY run_id;
