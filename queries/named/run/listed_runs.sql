-- One row is a run of a cluster that had time in the window and matches, with its numbers as the last computation stored them: the first of those, the largest first; `matching` of them do.
WITH matched AS (
    SELECT * FROM runs
    WHERE cluster = $cluster
      AND COALESCE(started_at, eligible_at, first_submitted_at) < $until
      AND COALESCE(ended_at, $until) >= $since
      AND (
          $text = ''
          OR contains(lower(run_id), $text)
          OR contains(lower(COALESCE(name, '')), $text)
          OR contains(lower(COALESCE("user", '')), $text)
      )
      AND $user IN ('', "user")
      AND $account IN ('', account)
      AND $partition IN ('', "partition")
      AND $state IN ('', state)
),
first_ones AS (
    SELECT *, COUNT(*) OVER () AS matching FROM matched ORDER BY n_gpus DESC, started_at, run_id LIMIT $most
)
SELECT r.*, m.allocated_gpu_s AS allocated, m.ettr_low, m.ettr_high
FROM first_ones AS r
LEFT JOIN run_results AS m ON m.cluster = r.cluster AND m.run_id = r.run_id
ORDER BY r.n_gpus DESC, r.started_at, r.run_id;
