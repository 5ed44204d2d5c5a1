-- One row is a run that a text may mean, the best match and then the newest first: by its id, the id of a job of it, the name in another log of its attempts, or its name. Runs known from a log alone are among them.
WITH jobs AS (
    SELECT
        r.cluster,
        r.run_id,
        MAX(a.submitted_at) AS submitted_at,
        BOOL_OR(
            -- The component or task that is written out goes before the whole job.
            a.display_id = $job OR (a.job_id = $job AND a.array_job_id IS NULL AND a.het_job_id IS NULL)
        ) AS is_job,
        BOOL_OR($job IN (a.job_id, a.array_job_id, a.het_job_id)) AS has_job
    FROM run_attempts AS r
    JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
    WHERE ($cluster IS NULL OR r.cluster = $cluster)
    GROUP BY r.cluster, r.run_id
),
computed AS (
    SELECT
        j.cluster,
        j.run_id,
        CASE
            WHEN j.run_id = $text THEN 0
            WHEN j.is_job THEN 1
            WHEN j.has_job THEN 2
            WHEN starts_with(j.run_id, $text || '@') THEN 4
            WHEN n.name = $text THEN 5
        END AS place,
        FALSE AS logged_only,
        FALSE AS by_other_log,
        j.submitted_at AS newest_at
    FROM jobs AS j
    JOIN runs AS n USING (cluster, run_id)
),
other_logs AS (
    SELECT r.cluster, r.run_id, 3 AS place, FALSE AS logged_only, TRUE AS by_other_log, MAX(s.started_at) AS newest_at
    FROM run_sessions AS s
    JOIN run_attempts AS r USING (cluster, scheduler, job_id)
    WHERE s.run_id = $text AND r.run_id <> $text AND NOT starts_with(r.run_id, $text || '@')
      AND ($cluster IS NULL OR s.cluster = $cluster)
    GROUP BY r.cluster, r.run_id
),
logged AS (
    SELECT
        s.cluster,
        s.run_id,
        CASE WHEN s.run_id = $text THEN 0 WHEN BOOL_OR(s.job_id = $job) THEN 1 END AS place,
        TRUE AS logged_only,
        FALSE AS by_other_log,
        MAX(s.started_at) AS newest_at
    FROM run_sessions AS s
    WHERE ($cluster IS NULL OR s.cluster = $cluster)
      AND NOT EXISTS (
          SELECT 1 FROM run_attempts AS r
          WHERE r.cluster = s.cluster AND (r.run_id = s.run_id OR (r.scheduler = s.scheduler AND r.job_id = s.job_id))
      )
    GROUP BY s.cluster, s.run_id
)
SELECT * FROM computed WHERE place IS NOT NULL
UNION ALL
SELECT * FROM other_logs
UNION ALL
SELECT * FROM logged WHERE place IS NOT NULL
ORDER BY place, newest_at DESC, cluster, run_id
LIMIT 100;
