-- One row is an attempt that accounting never closed although the controller no longer had the job (sacctmgr show runawayjobs), with the latest time at which it can have ended.
CREATE OR REPLACE VIEW runaway_attempts AS
-- Mending it by `sacctmgr show runawayjobs` closes the row at its own start; how long it ran stays unknown.
-- An open job that a later list lacks was listed by mistake: the controller has it. A list of which rows were refused
-- lacks nothing: what is missing may be among those.
WITH refused AS (
    SELECT DISTINCT digest FROM loads WHERE source = 'slurm.runaway' AND rows_rejected > 0
),
last_look AS (
    SELECT l.cluster, MAX(l.covers_until) AS ts
    FROM loads AS l
    ANTI JOIN refused AS f ON l.digest = f.digest
    WHERE l.source = 'slurm.runaway'
    GROUP BY l.cluster
),
listed AS (
    SELECT
        a.cluster,
        a.scheduler,
        a.job_id,
        a.submitted_at,
        a.started_at,
        MIN(GREATEST(r.first_seen_at, a.submitted_at, a.started_at)) AS first_seen_at
    FROM stored.attempts AS a
    JOIN runaway_jobs AS r
        ON a.cluster = r.cluster
        AND a.job_id = r.job_id
        AND date_trunc('second', a.submitted_at) = date_trunc('second', r.submitted_at)
    LEFT JOIN last_look AS k ON r.cluster = k.cluster
    WHERE a.scheduler = 'slurm'
      AND (a.ended_at IS NOT NULL OR k.ts IS NULL OR k.ts <= r.last_seen_at)
      AND (a.ended_at IS NULL OR a.ended_at <= GREATEST(a.submitted_at, a.eligible_at, a.started_at))
    GROUP BY a.cluster, a.scheduler, a.job_id, a.submitted_at, a.started_at
),
places AS (
    SELECT l.*, n.node, n.n_gpus
    FROM listed AS l
    JOIN attempt_nodes AS n USING (cluster, scheduler, job_id, submitted_at)
    WHERE l.started_at IS NOT NULL
),
-- An event of a node is recorded once no job runs there.
out_of_service AS (
    SELECT p.cluster, p.scheduler, p.job_id, p.submitted_at, MIN(s.started_at) AS ended_at
    FROM places AS p
    JOIN node_states AS s USING (cluster, node)
    WHERE s.source = 'slurm.events'
      AND s.state IN ('down', 'drained', 'maintenance', 'unknown')
      AND s.started_at > p.started_at
    GROUP BY ALL
),
-- Other holders of GPUs of the node since: of several runaways the older one is taken to have gone first.
others AS (
    SELECT p.cluster, p.scheduler, p.job_id, p.submitted_at, p.node, a.started_at, a.ended_at, n.n_gpus
    FROM places AS p
    JOIN attempt_nodes AS n ON p.cluster = n.cluster AND p.node = n.node AND n.n_gpus > 0
    JOIN stored.attempts AS a
        ON n.cluster = a.cluster AND n.scheduler = a.scheduler AND n.job_id = a.job_id
        AND n.submitted_at = a.submitted_at
    LEFT JOIN listed AS l
        ON n.cluster = l.cluster AND n.scheduler = l.scheduler AND n.job_id = l.job_id
        AND n.submitted_at = l.submitted_at
    WHERE p.n_gpus > 0
      AND a.started_at IS NOT NULL
      AND COALESCE(a.ended_at, 'infinity') > p.started_at
      AND (l.job_id IS NULL OR (l.started_at, l.job_id) > (p.started_at, p.job_id))
),
changes AS (
    SELECT * EXCLUDE (started_at, ended_at), started_at AS ts, TRUE AS begins FROM others
    UNION ALL
    SELECT * EXCLUDE (started_at, ended_at, n_gpus), -n_gpus AS n_gpus, ended_at AS ts, FALSE AS begins
    FROM others
    WHERE ended_at IS NOT NULL
),
held AS (
    SELECT
        cluster,
        scheduler,
        job_id,
        submitted_at,
        node,
        ts,
        BOOL_OR(begins) AS begins,
        SUM(SUM(n_gpus)) OVER (PARTITION BY cluster, scheduler, job_id, submitted_at, node ORDER BY ts) AS n_gpus
    FROM changes
    GROUP BY cluster, scheduler, job_id, submitted_at, node, ts
),
room AS (
    SELECT
        h.*,
        p.n_gpus AS own_gpus,
        p.started_at,
        COALESCE(
            (SELECT MAX(i.n_gpus) FROM nodes AS i WHERE i.cluster = h.cluster AND i.node = h.node),
            GREATEST(
                p.n_gpus,
                MAX(h.n_gpus) OVER (PARTITION BY h.cluster, h.scheduler, h.job_id, h.submitted_at, h.node)
            )
        ) AS capacity
    FROM held AS h
    JOIN places AS p USING (cluster, scheduler, job_id, submitted_at, node)
),
given_away AS (
    SELECT cluster, scheduler, job_id, submitted_at, MIN(ts) AS ended_at
    FROM room
    WHERE begins AND ts > started_at AND own_gpus + n_gpus > capacity
    GROUP BY ALL
)
SELECT
    l.cluster,
    l.scheduler,
    l.job_id,
    l.submitted_at,
    LEAST(l.first_seen_at, o.ended_at, g.ended_at) AS ended_at,
    CASE
        WHEN g.ended_at <= LEAST(l.first_seen_at, COALESCE(o.ended_at, l.first_seen_at)) THEN 'its GPUs were given to others'
        WHEN o.ended_at <= l.first_seen_at THEN 'its node went out of service'
        ELSE 'it was found to be a runaway job'
    END AS because
FROM listed AS l
LEFT JOIN out_of_service AS o USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN given_away AS g USING (cluster, scheduler, job_id, submitted_at);
