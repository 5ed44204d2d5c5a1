-- One row is a critical health event of a cluster, as metrics read it.
SELECT cluster, node, ts, kind, kind || ' ' || code || COALESCE(': ' || detail, '') AS detail
FROM health_events
WHERE cluster = $cluster AND severity = 'critical'
ORDER BY node, ts, kind, detail;
