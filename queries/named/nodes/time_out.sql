-- One row is GPUs of a node that are unavailable by a known state (down, drained, maintenance), or that an attempt holds while the node is in one, within a window.
-- Slurm notices a silent node late, and persons correct states: what was held in the day before a state counts, too.
SELECT
    g.cluster,
    g.node,
    GREATEST(g.started_at, $since) AS started_at,
    LEAST(g.ended_at, $until) AS ended_at,
    g.state,
    g.category,
    CAST(SUM(g.gpus) * 1000 AS BIGINT) AS milli_gpus
FROM gpu_time AS g
WHERE g.cluster = $cluster
  AND g.ended_at > $since
  AND g.started_at < $until
  AND (
    g.category IN ('maintenance', 'down', 'drained')
    OR (
        g.state = 'allocated'
        AND (
            g.node IN (SELECT x.node FROM (SELECT UNNEST($corrected::VARCHAR[]) AS node) AS x)
            OR EXISTS (
                SELECT 1 FROM node_states AS s
                WHERE s.cluster = g.cluster
                  AND s.node = g.node
                  AND s.started_at < g.ended_at + INTERVAL 1 DAY
                  AND COALESCE(s.ended_at, 'infinity') > g.started_at
            )
        )
    )
  )
GROUP BY ALL
ORDER BY ALL;
