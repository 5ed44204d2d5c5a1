-- One row is the GPU-seconds of a run in one category on one UTC day (its number since 1970), and those of them that straggled: what `ledger_sums` of every window of whole days adds up to.
-- A row of the ledger lies within one UTC day.
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
LEFT JOIN run_attempts AS r
    ON r.cluster = $cluster AND r.scheduler = g.scheduler AND r.job_id = g.job_id AND r.submitted_at = g.submitted_at
WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until
GROUP BY ALL;
