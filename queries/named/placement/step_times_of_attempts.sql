-- One row is an attempt of a cluster with logged steps in a window: how many that lasted any time, and their median. A step is of the
-- attempt of its job that held GPUs when it was logged.
SELECT
    a.cluster,
    a.scheduler,
    a.job_id,
    a.submitted_at,
    COUNT(*) AS steps,
    MEDIAN(s.duration_s) AS median_s
FROM steps AS s
JOIN stored.attempts AS a
    ON a.cluster = s.cluster AND a.scheduler = s.scheduler AND a.job_id = s.job_id
        AND s.ts >= a.started_at AND s.ts <= COALESCE(a.ended_at, 'infinity')
WHERE s.cluster = $cluster AND s.ts >= $since AND s.ts < $until AND s.duration_s > 0
GROUP BY ALL
ORDER BY a.job_id, a.submitted_at;
