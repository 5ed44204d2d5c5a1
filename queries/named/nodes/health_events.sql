-- One row is a health event of a cluster, as metrics read it.
SELECT cluster, node, ts, gpu, kind, code, severity, action
FROM health_events
WHERE cluster = $cluster
ORDER BY node, ts, kind, code, gpu;
