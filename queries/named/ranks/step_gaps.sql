-- One row is a step that a window has the beginning of and whose next one is late: by so many times the usual step of its session, and at least so many seconds; also a last step after which the attempt, or the log that was read, went on for as long. Gaps in which a process started are restarts and left out.
WITH logged AS (
    SELECT run_id, scheduler, job_id, step, ts
    FROM steps
    WHERE cluster = $cluster AND ts >= $since AND ts < $before
        AND ($run IS NULL OR run_id = $run OR job_id = $run)
),
-- The last step of the window has its next one behind it; a parameter called until would leave the files of later days unread.
later AS (
    SELECT run_id, scheduler, job_id, MIN(ts) AS ts
    FROM steps
    WHERE cluster = $cluster AND ts >= $before AND run_id IN (SELECT run_id FROM logged)
    GROUP BY ALL
),
timed AS (
    SELECT
        l.*,
        COALESCE(LEAD(l.ts) OVER (PARTITION BY l.run_id, l.scheduler, l.job_id ORDER BY l.ts, l.step), n.ts) AS next_ts
    FROM logged AS l
    LEFT JOIN later AS n
        ON n.run_id = l.run_id AND n.scheduler IS NOT DISTINCT FROM l.scheduler AND n.job_id IS NOT DISTINCT FROM l.job_id
),
usual AS (
    SELECT run_id, scheduler, job_id, MEDIAN(epoch_us(next_ts) - epoch_us(ts)) / 1e6 AS usual_s
    FROM timed
    GROUP BY ALL
    HAVING COUNT(next_ts) >= 5
),
sessions AS (
    SELECT run_id, scheduler, job_id, started_at, n_gpus
    FROM run_sessions
    WHERE cluster = $cluster
),
ends AS (
    SELECT scheduler, job_id, started_at, ended_at
    FROM stored.attempts
    WHERE cluster = $cluster AND ended_at IS NOT NULL AND job_id IN (SELECT job_id FROM logged)
),
gaps AS (
    SELECT
        t.run_id,
        t.scheduler,
        t.job_id,
        t.step,
        t.ts,
        u.usual_s,
        COALESCE(
            t.next_ts,
            (
                SELECT MIN(e.ended_at) FROM ends AS e
                WHERE e.scheduler = t.scheduler AND e.job_id = t.job_id AND e.started_at <= t.ts AND e.ended_at > t.ts
            )
        ) AS resumed_at
    FROM timed AS t
    JOIN usual AS u ON u.run_id = t.run_id AND u.scheduler IS NOT DISTINCT FROM t.scheduler AND u.job_id IS NOT DISTINCT FROM t.job_id
)
SELECT
    $cluster AS cluster,
    g.run_id,
    g.job_id,
    g.step,
    g.ts AS began_at,
    g.resumed_at,
    g.usual_s,
    (
        SELECT MAX(s.n_gpus) FROM sessions AS s
        WHERE s.run_id = g.run_id AND s.job_id IS NOT DISTINCT FROM g.job_id
    ) AS n_gpus
FROM gaps AS g
WHERE epoch_us(g.resumed_at) - epoch_us(g.ts) >= 1e6 * GREATEST($times * g.usual_s, $least_s)
    AND NOT EXISTS (
        SELECT 1 FROM sessions AS s
        WHERE s.run_id = g.run_id AND s.job_id IS NOT DISTINCT FROM g.job_id
            AND s.started_at > g.ts AND s.started_at <= g.resumed_at
    )
ORDER BY g.ts, g.run_id;
