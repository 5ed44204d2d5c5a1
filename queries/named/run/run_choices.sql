-- One row is a value that runs of a cluster in the window have, and how many of them (of attempts for the last two): their user, account, partition, state, GPU model or scheduler; null: they have none.
WITH in_window AS (
    SELECT * FROM runs
    WHERE cluster = $cluster
      AND LEAST(started_at, COALESCE(eligible_at, first_submitted_at)) < $until
      AND COALESCE(ended_at, $until) >= $since
),
attempts_in_window AS (
    SELECT scheduler, gpu_model FROM attempts
    WHERE cluster = $cluster
      AND COALESCE(started_at, eligible_at, submitted_at) < $until
      AND COALESCE(ended_at, $until) >= $since
)
SELECT 'user' AS name, "user" AS value, COUNT(*) AS runs FROM in_window GROUP BY ALL
UNION ALL
SELECT 'account', account, COUNT(*) FROM in_window GROUP BY ALL
UNION ALL
SELECT 'partition', "partition", COUNT(*) FROM in_window GROUP BY ALL
UNION ALL
SELECT 'state', state, COUNT(*) FROM in_window GROUP BY ALL
UNION ALL
SELECT 'gpu_model', gpu_model, COUNT(*) FROM attempts_in_window GROUP BY ALL
UNION ALL
SELECT 'scheduler', scheduler, COUNT(*) FROM attempts_in_window GROUP BY ALL;
