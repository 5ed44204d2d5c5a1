-- One row is a UTC day of a cluster in one category of the ledger, of one owner; that of time that no job held is none. A day's rows add up to its capacity.
SELECT
    t.cluster,
    CAST(date_trunc('day', t.started_at) AS TIMESTAMPTZ) AS "day",
    t.state,
    t.category,
    COALESCE(t.cause, 'none') AS cause,
    COALESCE(a."user", IF(t.state = 'allocated', 'unknown', 'none')) AS "user",
    COALESCE(a.account, IF(t.state = 'allocated', 'unknown', 'none')) AS account,
    COALESCE(a."partition", IF(t.state = 'allocated', 'unknown', 'none')) AS "partition",
    CAST(SUM(t.gpu_seconds) AS DOUBLE) AS gpu_seconds
FROM gpu_time AS t
LEFT JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL
ORDER BY ALL;
