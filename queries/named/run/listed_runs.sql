-- One row is a run of a cluster that had time in the window and matches, with its numbers as the last computation stored them: $most of those after the first $skipped, by $sort; `matching` of them do.
WITH matched AS (
    SELECT run_id, started_at, ended_at, n_gpus, n_attempts FROM runs
    WHERE cluster = $cluster
      AND LEAST(started_at, COALESCE(eligible_at, first_submitted_at)) < $until
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
),
-- Only the order by GPU-hours reads the results of every run.
ranked AS (
    SELECT
        run_id,
        started_at,
        CASE $sort
            WHEN 'gpus' THEN n_gpus
            WHEN 'attempts' THEN n_attempts
            WHEN 'started' THEN epoch(started_at)
            WHEN 'ended' THEN COALESCE(epoch(ended_at), 1e18)
        END AS rank
    FROM matched
    WHERE $sort <> 'hours'
    UNION ALL
    SELECT m.run_id, m.started_at, r.allocated_gpu_s
    FROM matched AS m
    LEFT JOIN run_results AS r ON r.cluster = $cluster AND r.run_id = m.run_id
    WHERE $sort = 'hours'
),
first_ones AS (
    SELECT run_id, rank FROM ranked ORDER BY rank DESC NULLS LAST, started_at, run_id LIMIT $most OFFSET $skipped
),
counted AS (SELECT COUNT(*) AS matching FROM matched)
SELECT r.*, c.matching, m.allocated_gpu_s AS allocated, m.ettr_low, m.ettr_high
FROM first_ones AS f
JOIN runs AS r ON r.cluster = $cluster AND r.run_id = f.run_id
CROSS JOIN counted AS c
LEFT JOIN run_results AS m ON m.cluster = $cluster AND m.run_id = f.run_id
ORDER BY f.rank DESC NULLS LAST, r.started_at, r.run_id;
