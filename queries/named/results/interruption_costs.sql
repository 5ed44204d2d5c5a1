-- One row is an interruption in the window, of a class (infrastructure, ...; empty: of any) (an attempt of a run, a heterogeneous job's components together) with the GPU-seconds that it cost: lost and stalled time of the interrupted attempt but what restarts in place took, and startup of the one that followed; null where more than a tenth of the attempt was unobserved, or the kept part of its work is not logged: its own, and that of the attempt that followed.
-- The cost of an attempt that only accounting records is unknown: such attempts are most of the ledger.
WITH seen AS (
    SELECT DISTINCT scheduler, job_id, submitted_at
    FROM gpu_time
    WHERE cluster = $cluster
      AND job_id IS NOT NULL
      -- By itself: so DuckDB skips most rows by one column of few values.
      AND category <> 'unattributed'
      AND (
          (category = 'stalled' AND cause = 'lockstep')
          OR (category = 'productive' AND evidence <> 'log')
      ) IS NOT TRUE
),
-- Few attempts are seen: they are put into their runs first, and the many interruptions are looked up among them.
seen_of_runs AS (
    SELECT r.run_id, r.attempt_no
    FROM run_attempts AS r
    SEMI JOIN seen AS s ON r.scheduler = s.scheduler AND r.job_id = s.job_id AND r.submitted_at = s.submitted_at
    WHERE r.cluster = $cluster
),
ended AS (
    SELECT DISTINCT i.run_id, i.attempt_no
    FROM interruptions AS i
    SEMI JOIN seen_of_runs AS r ON r.run_id = i.run_id AND r.attempt_no = i.attempt_no
    WHERE i.cluster = $cluster
),
wanted AS (
    SELECT run_id, attempt_no FROM ended
    UNION
    SELECT run_id, attempt_no + 1 FROM ended
),
parts AS (
    SELECT r.scheduler, r.job_id, r.submitted_at, r.run_id, r.attempt_no
    FROM run_attempts AS r
    SEMI JOIN wanted AS w ON w.run_id = r.run_id AND w.attempt_no = r.attempt_no
    WHERE r.cluster = $cluster
),
times AS (
    SELECT
        r.run_id,
        r.attempt_no,
        g.category,
        g.cause,
        g.evidence,
        g.gpu_seconds,
        -- Startups after the first step are those of restarts in place.
        g.started_at < COALESCE(
            MIN(g.started_at) FILTER (g.category IN ('productive', 'lost')) OVER (PARTITION BY r.run_id, r.attempt_no),
            'infinity'
        ) AS before_steps
    FROM gpu_time AS g
    JOIN parts AS r USING (scheduler, job_id, submitted_at)
    WHERE g.cluster = $cluster AND g.state = 'allocated'
),
spent AS (
    SELECT
        g.run_id,
        g.attempt_no,
        SUM(g.gpu_seconds) FILTER (
            g.category IN ('lost', 'stalled')
            -- Causes that have nothing to do with how the attempt ended; only stalled time has the last five.
            AND COALESCE(g.cause, '') NOT IN ('restart_in_place', 'idle_gpus', 'data_stall', 'inactive', 'lockstep', 'suspended')
        ) AS broken_gpu_s,
        SUM(g.gpu_seconds) FILTER (g.category = 'startup' AND g.before_steps) AS startup_gpu_s,
        -- Telemetry shows that GPUs worked, not whether the work was kept.
        SUM(g.gpu_seconds) FILTER (
            g.category = 'unattributed'
            OR (g.category = 'stalled' AND g.cause = 'lockstep')
            OR (g.category = 'productive' AND g.evidence <> 'log')
        ) AS unseen_gpu_s,
        SUM(g.gpu_seconds) FILTER (g.category = 'productive') AS productive_gpu_s,
        SUM(g.gpu_seconds) FILTER (g.evidence = 'log') AS logged_gpu_s,
        SUM(g.gpu_seconds) AS held_gpu_s
    FROM times AS g
    GROUP BY ALL
)
SELECT
    i.cluster,
    i.run_id,
    i.attempt_no,
    i.job_id,
    i.submitted_at,
    i.ended_at,
    i.class,
    i.cause,
    i.node,
    i.n_gpus,
    CASE
        WHEN COALESCE(s.unseen_gpu_s, 0) * 10 <= s.held_gpu_s
            -- What the next attempt did again, and when it began to train, only its log records.
            AND (s.productive_gpu_s IS NULL OR n.held_gpu_s IS NULL OR n.logged_gpu_s > 0)
            THEN CAST(COALESCE(s.broken_gpu_s, 0) + COALESCE(n.startup_gpu_s, 0) AS DOUBLE)
    END AS cost_gpu_s
FROM run_interruptions AS i
LEFT JOIN spent AS s USING (run_id, attempt_no)
LEFT JOIN spent AS n ON n.run_id = i.run_id AND n.attempt_no = i.attempt_no + 1
WHERE i.cluster = $cluster AND i.ended_at > $since AND i.ended_at <= $until AND $of_class IN ('', i.class)
ORDER BY i.ended_at DESC, i.job_id, i.submitted_at;
