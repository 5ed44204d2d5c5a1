-- One row is an attempt of a cluster that held GPUs within a window: whose it was, how it ended, what it had requested,
-- and the GPU-seconds of it in the window by what they show of work.
WITH clipped AS (
    SELECT
        scheduler,
        job_id,
        submitted_at,
        category,
        cause,
        evidence,
        SUM(CASE
            WHEN started_at >= $since AND ended_at <= $until THEN CAST(gpu_seconds AS DOUBLE)
            ELSE gpus * (epoch_us(LEAST(ended_at, $until)) - epoch_us(GREATEST(started_at, $since))) * 0.000001
        END) AS gpu_s
    FROM gpu_time
    WHERE cluster = $cluster AND ended_at > $since AND started_at < $until AND state = 'allocated'
    -- One sum of an attempt's nodes and days first: the sums below have a quarter of the rows.
    GROUP BY ALL
),
spent AS (
    SELECT
        scheduler,
        job_id,
        submitted_at,
        SUM(gpu_s) AS allocated_s,
        -- Standing still without a failure that explains it; what is assumed is among the unobserved, and not here, too.
        SUM(gpu_s) FILTER (
            category = 'stalled' AND cause IN ('inactive', 'hang', 'data_stall', 'suspended', 'idle_gpus')
            AND evidence <> 'assumed'
        ) AS idle_s,
        SUM(gpu_s) FILTER (category = 'stalled' AND cause = 'idle_gpus' AND evidence <> 'assumed') AS unused_s,
        SUM(gpu_s) FILTER (
            category IN ('productive', 'lost', 'checkpoint', 'other_work')
            -- Active GPUs beside an idle one may have worked, and were not idle.
            OR (category = 'stalled' AND cause = 'lockstep')
        ) AS worked_s,
        SUM(gpu_s) FILTER (category = 'productive' AND evidence <> 'assumed') AS productive_s,
        SUM(gpu_s) FILTER (category = 'lost') AS lost_s,
        SUM(gpu_s) FILTER (category = 'unattributed' OR evidence = 'assumed') AS unseen_s,
        SUM(gpu_s) FILTER (evidence = 'log') AS log_s,
        SUM(gpu_s) FILTER (evidence = 'telemetry') AS telemetry_s,
        SUM(gpu_s) FILTER (evidence = 'accounting') AS accounting_s,
        SUM(gpu_s) FILTER (evidence = 'assumed') AS assumed_s
    FROM clipped
    GROUP BY ALL
)
SELECT
    $cluster AS cluster,
    s.scheduler,
    s.job_id,
    s.submitted_at,
    r.run_id,
    r.attempt_no,
    a."user",
    a.account,
    a."partition",
    a.name,
    CASE WHEN u.job_id IS NULL THEN a.state ELSE 'RUNAWAY' END AS state,
    a.started_at,
    COALESCE(u.ended_at, a.ended_at) AS ended_at,
    a.time_limit_s,
    a.suspended_s,
    CAST(a.n_gpus AS DOUBLE) AS n_gpus,
    CAST(s.allocated_s AS DOUBLE) AS allocated_s,
    CAST(COALESCE(s.idle_s, 0) AS DOUBLE) AS idle_s,
    CAST(COALESCE(s.unused_s, 0) AS DOUBLE) AS unused_s,
    CAST(COALESCE(s.worked_s, 0) AS DOUBLE) AS worked_s,
    CAST(COALESCE(s.productive_s, 0) AS DOUBLE) AS productive_s,
    CAST(COALESCE(s.lost_s, 0) AS DOUBLE) AS lost_s,
    CAST(COALESCE(s.unseen_s, 0) AS DOUBLE) AS unseen_s,
    CAST(COALESCE(s.log_s, 0) AS DOUBLE) AS log_s,
    CAST(COALESCE(s.telemetry_s, 0) AS DOUBLE) AS telemetry_s,
    CAST(COALESCE(s.accounting_s, 0) AS DOUBLE) AS accounting_s,
    CAST(COALESCE(s.assumed_s, 0) AS DOUBLE) AS assumed_s
FROM spent AS s
JOIN attempts AS a
    ON a.cluster = $cluster AND a.scheduler = s.scheduler AND a.job_id = s.job_id AND a.submitted_at = s.submitted_at
LEFT JOIN run_attempts AS r
    ON r.cluster = $cluster AND r.scheduler = s.scheduler AND r.job_id = s.job_id AND r.submitted_at = s.submitted_at
LEFT JOIN runaway_attempts AS u
    ON u.cluster = $cluster AND u.scheduler = s.scheduler AND u.job_id = s.job_id AND u.submitted_at = s.submitted_at;
