-- One row is the GPU-seconds of a subject (a cluster, category, GPU model, day, user, account, partition or run) on one UTC day, of one
-- GPU model in one category, within a window, and the energy of those whose power is known.
-- A row of the ledger lies within one UTC day; only those at the window's edges are cut. The model is the node's when the row begins,
-- else the one that the attempt's TRES names. Of a node's inventory only changes of the model count: nearly every node has one row then,
-- and the ledger is joined by node instead of being sorted by time for an ASOF join.
-- Power is the mean of the attempt: that of its GPUs by telemetry; else that of its nodes by Slurm, if it held all of their GPUs (what
-- Slurm measures is the whole node's, whoever else was on it). Idle GPUs have none.
WITH changed AS (
    SELECT node, gpu_model, started_at
    FROM inventory
    WHERE cluster = $cluster
    WINDOW held AS (PARTITION BY node ORDER BY started_at)
    QUALIFY ROW_NUMBER() OVER held = 1 OR gpu_model IS DISTINCT FROM LAG(gpu_model) OVER held
),
models AS (
    SELECT
        node,
        gpu_model,
        started_at,
        LEAD(started_at, 1, 'infinity'::TIMESTAMPTZ) OVER (PARTITION BY node ORDER BY started_at) AS next_at
    FROM changed
),
clipped AS (
    SELECT
        g.node,
        g.scheduler,
        g.job_id,
        g.submitted_at,
        g.started_at,
        epoch_us(g.started_at) // 86400000000 AS day,
        g.state,
        g.category,
        g.evidence,
        CASE
            WHEN g.started_at >= $since AND g.ended_at <= $until THEN g.gpu_seconds
            ELSE CAST(
                g.gpus * (epoch_us(LEAST(g.ended_at, $until)) - epoch_us(GREATEST(g.started_at, $since))) * 0.000001
                AS DECIMAL(18, 9)
            )
        END AS gpu_seconds
    FROM gpu_time AS g
    WHERE g.cluster = $cluster AND g.ended_at > $since AND g.started_at < $until
),
-- Of an attempt's nodes one sum a day: the joins below have a third of the rows.
modelled AS (
    SELECT
        c.scheduler,
        c.job_id,
        c.submitted_at,
        c.day,
        c.state,
        c.category,
        c.evidence,
        i.gpu_model,
        SUM(c.gpu_seconds) AS gpu_seconds
    FROM clipped AS c
    LEFT JOIN models AS i ON c.node = i.node AND c.started_at >= i.started_at AND c.started_at < i.next_at
    GROUP BY ALL
),
sampled AS (
    SELECT scheduler, job_id, submitted_at, SUM(energy_j) / SUM(power_s) AS watts
    FROM attempt_activity
    WHERE cluster = $cluster AND power_s > 0 AND energy_j IS NOT NULL
    GROUP BY ALL
),
-- Attempts that held all GPUs of each of their nodes.
whole AS (
    SELECT n.scheduler, n.job_id, n.submitted_at, CAST(SUM(n.n_gpus) AS DOUBLE) AS n_gpus
    -- The other attempts are left out before the ASOF join, which sorts what it joins.
    FROM (
        SELECT scheduler, job_id, submitted_at, node, n_gpus, started_at
        FROM attempt_node_times
        WHERE cluster = $cluster
          AND job_id IN (SELECT u.job_id FROM step_usage AS u WHERE u.cluster = $cluster AND u.energy_j > 0)
    ) AS n
    ASOF LEFT JOIN (FROM inventory WHERE cluster = $cluster) AS i ON n.node = i.node AND n.started_at >= i.started_at
    GROUP BY ALL
    HAVING SUM(n.n_gpus) > 0 AND COALESCE(BOOL_AND(n.n_gpus IS NOT DISTINCT FROM i.gpus), false)
),
-- Steps beside each other measure the same nodes: the largest of them is taken, and the job's own row where there is none.
metered AS (
    SELECT
        w.scheduler,
        w.job_id,
        w.submitted_at,
        COALESCE(MAX(u.energy_j) FILTER (u.step <> ''), MAX(u.energy_j)) / (a.elapsed_s * w.n_gpus) AS watts
    FROM step_usage AS u
    JOIN stored.attempts AS a
        ON u.cluster = a.cluster AND u.scheduler = a.scheduler AND u.job_id = a.job_id
        AND CASE
            WHEN u.db_index IS NOT NULL AND a.db_index IS NOT NULL THEN u.db_index = a.db_index
            ELSE u.started_at >= a.started_at AND u.started_at <= COALESCE(a.ended_at, 'infinity')
        END
    JOIN whole AS w ON w.scheduler = a.scheduler AND w.job_id = a.job_id AND w.submitted_at = a.submitted_at
    WHERE u.cluster = $cluster AND u.energy_j > 0 AND a.elapsed_s > 0
    GROUP BY w.scheduler, w.job_id, w.submitted_at, a.elapsed_s, w.n_gpus
),
drawn AS (
    SELECT scheduler, job_id, submitted_at, watts FROM sampled
    UNION ALL
    SELECT scheduler, job_id, submitted_at, watts
    FROM metered
    ANTI JOIN sampled USING (scheduler, job_id, submitted_at)
),
-- Days are numbers until they are summed up, since there are far fewer days than rows.
sums AS (
    SELECT
        CASE $dimension
            WHEN 'cluster' THEN $cluster
            WHEN 'category' THEN m.category
            WHEN 'model' THEN COALESCE(m.gpu_model, a.gpu_model, '(unknown)')
            WHEN 'day' THEN NULL
            WHEN 'user' THEN COALESCE(a."user", IF(m.job_id IS NULL, '(no attempt)', '(unknown)'))
            WHEN 'account' THEN COALESCE(a.account, IF(m.job_id IS NULL, '(no attempt)', '(unknown)'))
            WHEN 'partition' THEN COALESCE(a."partition", IF(m.job_id IS NULL, '(no attempt)', '(unknown)'))
            ELSE COALESCE(r.run_id, '(no attempt)')
        END AS subject,
        m.state,
        m.category,
        m.evidence,
        COALESCE(m.gpu_model, a.gpu_model) AS gpu_model,
        m.day,
        SUM(m.gpu_seconds) AS gpu_seconds,
        CAST(SUM(m.gpu_seconds) FILTER (d.watts IS NOT NULL) AS DOUBLE) AS energy_gpu_s,
        SUM(CAST(m.gpu_seconds AS DOUBLE) * d.watts) AS energy_j
    FROM modelled AS m
    LEFT JOIN stored.attempts AS a
        ON a.cluster = $cluster AND a.scheduler = m.scheduler AND a.job_id = m.job_id AND a.submitted_at = m.submitted_at
    LEFT JOIN (FROM run_attempts WHERE $dimension = 'run') AS r
        ON r.cluster = $cluster AND r.scheduler = m.scheduler AND r.job_id = m.job_id AND r.submitted_at = m.submitted_at
    LEFT JOIN drawn AS d
        ON d.scheduler = m.scheduler AND d.job_id = m.job_id AND d.submitted_at = m.submitted_at
    GROUP BY ALL
),
dated AS (
    SELECT * REPLACE (CAST(make_timestamp(day * 86400000000) AS DATE) AS day) FROM sums
)
SELECT $cluster AS cluster, COALESCE(subject, CAST(day AS VARCHAR)) AS subject, * EXCLUDE (subject)
FROM dated
ORDER BY ALL;
