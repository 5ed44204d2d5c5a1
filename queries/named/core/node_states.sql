-- One row is a node in one state for an interval, as metrics read it.
-- Where Slurm's events were read they record when a node was down; a snapshot's reason may be older than the state it
-- is shown with (Slurm keeps the first reason), so of snapshots only drains count then: they begin when they are requested
-- for, and events record them only once the node's last job is gone.
-- A reservation that is no longer listed before its end was withdrawn: its maintenance lasts until the first listing
-- without it, unless that lists the same name with another beginning (Slurm opens a new record when nodes change).
WITH snapshots AS (
    SELECT DISTINCT covers_until AS ts
    FROM loads
    WHERE cluster = $cluster AND source = 'slurm.reservations' AND covers_from = covers_until AND rows_rejected = 0
),
withdrawn AS (
    SELECT r.name, r.started_at, MIN(l.ts) AS ts
    FROM reservations AS r
    JOIN snapshots AS l ON l.ts > r.last_seen_at AND l.ts < COALESCE(r.ended_at, 'infinity')
    WHERE r.cluster = $cluster AND r.maintenance
      AND NOT EXISTS (
        SELECT 1 FROM reservations AS o
        WHERE o.cluster = r.cluster AND o.name = r.name AND l.ts BETWEEN o.started_at AND o.last_seen_at
      )
    GROUP BY r.name, r.started_at
)
SELECT
    s.cluster,
    s.node,
    s.started_at,
    COALESCE(LEAST(w.ts, s.ended_at), w.ts, s.ended_at) AS ended_at,
    s.state,
    s.state_raw,
    s.reason,
    s.actor,
    s.planned,
    s.source
FROM node_states AS s
LEFT JOIN withdrawn AS w
    ON s.source = 'slurm.reservations' AND w.name = s.state_raw AND w.started_at = s.started_at
WHERE s.cluster = $cluster
  AND (w.ts IS NULL OR w.ts > s.started_at)
  AND (
    s.source <> 'slurm.nodes'
    OR s.state IN ('drained', 'maintenance')
    OR NOT EXISTS (SELECT 1 FROM loads AS l WHERE l.cluster = $cluster AND l.source = 'slurm.events')
  )
ORDER BY s.node, s.started_at, s.state;
