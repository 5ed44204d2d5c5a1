-- warn: run logs whose times lie outside their job's attempts: a wrong clock on the training node? They are not used.
-- of: FROM run_sessions
SELECT s.cluster, s.run_id, s.job_id, s.started_at, s.ended_at, s.origin
FROM run_sessions AS s
JOIN computes AS c USING (cluster)
WHERE
    EXISTS (
        SELECT 1 FROM stored.attempts AS a
        WHERE a.cluster = s.cluster AND a.scheduler = s.scheduler AND a.job_id = s.job_id AND a.started_at IS NOT NULL
    )
    AND NOT EXISTS (
        SELECT 1 FROM stored.attempts AS a
        WHERE
            a.cluster = s.cluster AND a.scheduler = s.scheduler AND a.job_id = s.job_id
            AND s.started_at >= a.started_at - to_milliseconds(CAST((c.constants ->> 'clock_skew_s')::DOUBLE * 1000 AS BIGINT))
            AND s.ended_at <= COALESCE(a.ended_at, 'infinity'::TIMESTAMPTZ)
                + to_milliseconds(CAST((c.constants ->> 'clock_skew_s')::DOUBLE * 1000 AS BIGINT))
    )
ORDER BY ALL;
