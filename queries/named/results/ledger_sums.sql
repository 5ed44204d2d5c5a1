-- One row is the GPU-seconds of a subject (a cluster, day, node, user, account, partition or run) in one category, within a window, and those of them that straggled.
-- A row of the ledger lies within one UTC day; only those at the window's edges are cut. Attempts are joined only where the subject is theirs.
-- Of a cluster and its days only what lies before the first and after the last midnight of the window is read from the ledger, and the days between as `day_sums` has them.
WITH clipped AS (
    SELECT
        g.node,
        g.scheduler,
        g.job_id,
        g.submitted_at,
        g.started_at,
        g.state,
        g.category,
        g.cause,
        g.evidence,
        CASE
            WHEN g.started_at >= $since AND g.ended_at <= $until THEN g.gpu_seconds
            ELSE CAST(
                g.gpus * (epoch_us(LEAST(g.ended_at, $until)) - epoch_us(GREATEST(g.started_at, $since))) * 0.000001
                AS DECIMAL(18, 9)
            )
        END AS gpu_seconds,
        CASE
            WHEN g.started_at >= $since AND g.ended_at <= $until THEN g.straggling_gpu_seconds
            ELSE CAST(
                g.straggling_gpu_seconds
                * ((epoch_us(LEAST(g.ended_at, $until)) - epoch_us(GREATEST(g.started_at, $since)))
                    / (epoch_us(g.ended_at) - epoch_us(g.started_at)))
                AS DECIMAL(18, 9)
            )
        END AS straggling_gpu_seconds
    FROM gpu_time AS g
    WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until
      AND (
          $dimension NOT IN ('cluster', 'day')
          OR g.started_at < make_timestamptz((epoch_us($since::TIMESTAMPTZ) + 86399999999) // 86400000000 * 86400000000)
          OR g.started_at >= make_timestamptz(epoch_us($until::TIMESTAMPTZ) // 86400000000 * 86400000000)
      )
),
-- One branch runs; days are numbers until they are summed up, since there are far fewer days than rows.
subjects AS (
    SELECT CASE $dimension WHEN 'node' THEN c.node ELSE $cluster END AS subject, NULL::BIGINT AS day, c.*
    FROM clipped AS c
    WHERE $dimension IN ('cluster', 'node')
    UNION ALL
    SELECT NULL, epoch_us(c.started_at) // 86400000000, c.*
    FROM clipped AS c
    WHERE $dimension = 'day'
    UNION ALL
    SELECT
        COALESCE(
            CASE $dimension WHEN 'user' THEN a.user WHEN 'account' THEN a.account ELSE a.partition END,
            CASE WHEN c.job_id IS NULL THEN '(no attempt)' ELSE '(unknown)' END
        ),
        NULL,
        c.*
    FROM clipped AS c
    LEFT JOIN stored.attempts AS a
        ON a.cluster = $cluster AND a.scheduler = c.scheduler AND a.job_id = c.job_id
            AND a.submitted_at = c.submitted_at
    WHERE $dimension IN ('user', 'account', 'partition')
    UNION ALL
    SELECT COALESCE(r.run_id, '(no attempt)'), NULL, c.*
    FROM clipped AS c
    LEFT JOIN run_attempts AS r
        ON r.cluster = $cluster AND r.scheduler = c.scheduler AND r.job_id = c.job_id
            AND r.submitted_at = c.submitted_at
    WHERE $dimension = 'run'
),
parts AS (
    SELECT subject, day, state, category, cause, evidence, gpu_seconds, straggling_gpu_seconds FROM subjects
    UNION ALL
    SELECT
        CASE $dimension WHEN 'cluster' THEN cluster END,
        CASE $dimension WHEN 'day' THEN day - DATE '1970-01-01' END,
        state,
        category,
        cause,
        evidence,
        gpu_seconds,
        straggling_gpu_seconds
    FROM day_sums
    WHERE cluster = $cluster
      AND $dimension IN ('cluster', 'day')
      AND day - DATE '1970-01-01' >= (epoch_us($since::TIMESTAMPTZ) + 86399999999) // 86400000000
      AND day - DATE '1970-01-01' < epoch_us($until::TIMESTAMPTZ) // 86400000000
),
sums AS (
    SELECT
        subject,
        day,
        state,
        category,
        cause,
        evidence,
        SUM(gpu_seconds) AS gpu_seconds,
        SUM(straggling_gpu_seconds) AS straggling_gpu_seconds
    FROM parts
    GROUP BY ALL
)
SELECT
    $cluster AS cluster,
    COALESCE(s.subject, CAST(make_timestamp(s.day * 86400000000) AS DATE)::VARCHAR) AS subject,
    s.* EXCLUDE (subject, day)
FROM sums AS s;
