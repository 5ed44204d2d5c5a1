-- One row is an incident of a cluster within a window, with how many attempts may have ended because of it; the newest first.
WITH ended AS (
    SELECT cluster, node, started_at, COUNT(*) FILTER (at_end) AS n_ended
    FROM attempt_health
    WHERE cluster = $cluster
    GROUP BY ALL
)
SELECT i.*, COALESCE(e.n_ended, 0) AS n_ended
FROM health_incidents AS i
LEFT JOIN ended AS e USING (cluster, node, started_at)
WHERE i.cluster = $cluster AND i.started_at < $until AND i.ended_at >= $since
ORDER BY i.started_at DESC, i.node;
