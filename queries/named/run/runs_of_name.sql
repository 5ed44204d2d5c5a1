-- One row is a run whose id is a name, `@` and more, with when its jobs ran; `until` is null while one runs.
SELECT
    r.run_id,
    MIN(a.started_at) AS started_at,
    CASE
        WHEN BOOL_OR(a.started_at IS NOT NULL AND COALESCE(o.ended_at, a.ended_at) IS NULL) THEN NULL
        ELSE MAX(COALESCE(o.ended_at, a.ended_at)) FILTER (WHERE a.started_at IS NOT NULL)
    END AS until
FROM run_attempts AS r
JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN runaway_attempts AS o USING (cluster, scheduler, job_id, submitted_at)
WHERE r.cluster = $cluster AND starts_with(r.run_id, $called || '@')
GROUP BY r.run_id
ORDER BY started_at, r.run_id;
