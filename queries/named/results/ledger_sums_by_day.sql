-- One row is the GPU-seconds of a run in one category on one UTC day (its number since 1970), and those of them that straggled: what `ledger_sums` of every window of whole days adds up to.
-- A row of the ledger lies within one UTC day.
WITH in_runs AS (
    -- Of millions of attempts few are in a window of a month: the others are left out before a row of theirs is hashed.
    SELECT scheduler, job_id, submitted_at, run_id
    FROM run_attempts
    WHERE cluster = $cluster
      AND submitted_at >= (
          SELECT MIN(submitted_at) FROM gpu_time WHERE cluster = $cluster AND ended_at > $since AND started_at < $until
      )
)
SELECT
    CAST(epoch_us(g.started_at) // 86400000000 AS INTEGER) AS day,
    COALESCE(r.run_id, '(no attempt)') AS subject,
    g.state,
    g.category,
    g.cause,
    g.evidence,
    SUM(g.gpu_seconds) AS gpu_seconds,
    SUM(g.straggling_gpu_seconds) AS straggling_gpu_seconds
FROM gpu_time AS g
LEFT JOIN in_runs AS r
    ON r.scheduler = g.scheduler AND r.job_id = g.job_id AND r.submitted_at = g.submitted_at
WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until
GROUP BY ALL;
