-- One row is a waiting array (21_[2-3%1]) all of whose tasks the warehouse has by now, each under the displayed id
-- (21_2): no raw id shows that one of them was the array's own record, which waits no more.
WITH waiting AS (
    SELECT
        cluster,
        scheduler,
        job_id,
        submitted_at,
        array_job_id,
        regexp_extract(display_id, '\[((?:[0-9]+(?:-[0-9]+(?::[0-9]+)?)?,?)+)(%[0-9]+)?\]$', 1) AS tasks
    FROM stored.attempts
    WHERE scheduler = 'slurm' AND state = 'PENDING' AND started_at IS NULL AND ended_at IS NULL AND contains(display_id, '[')
),
ranges AS (
    SELECT * EXCLUDE (tasks), unnest(string_split(tasks, ',')) AS part
    FROM waiting
    WHERE tasks <> ''
),
bounds AS (
    SELECT
        *,
        TRY_CAST(regexp_extract(part, '^([0-9]+)', 1) AS BIGINT) AS low,
        TRY_CAST(regexp_extract(part, '-([0-9]+)', 1) AS BIGINT) AS high,
        TRY_CAST(regexp_extract(part, ':([0-9]+)', 1) AS BIGINT) AS step
    FROM ranges
),
listed AS (
    SELECT
        cluster,
        scheduler,
        job_id,
        submitted_at,
        array_job_id,
        -- Slurm's largest array has four million tasks; a damaged range may have any number.
        unnest(generate_series(low, LEAST(COALESCE(high, low), low + 4194304), GREATEST(COALESCE(step, 1), 1))) AS task
    FROM bounds
)
SELECT l.cluster, l.scheduler, l.job_id, l.submitted_at
FROM listed AS l
LEFT JOIN stored.attempts AS t
    ON t.cluster = l.cluster AND t.scheduler = l.scheduler AND t.job_id = concat(l.array_job_id, '_', l.task)
    AND t.submitted_at >= l.submitted_at
GROUP BY l.cluster, l.scheduler, l.job_id, l.submitted_at
HAVING bool_and(t.job_id IS NOT NULL);
