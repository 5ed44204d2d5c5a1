-- One row is the id of a run of a user, account and partition, with an attempt on a GPU model or of a scheduler (empty: of any), that had time in the window.
SELECT run_id
FROM runs
WHERE cluster = $cluster
  AND LEAST(started_at, COALESCE(eligible_at, first_submitted_at)) < $until
  AND COALESCE(ended_at, $until) >= $since
  AND $user IN ('', "user")
  AND $account IN ('', account)
  AND $partition IN ('', "partition")
  AND (
      ($gpu_model = '' AND $scheduler = '')
      OR run_id IN (
          SELECT run_id
          FROM run_attempts
          INNER JOIN attempts USING (cluster, scheduler, job_id, submitted_at)
          WHERE cluster = $cluster
            AND $gpu_model IN ('', gpu_model)
            AND $scheduler IN ('', scheduler)
      )
  )
ORDER BY run_id;
