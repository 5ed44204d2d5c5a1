-- One row is a kind of health event (and its code) of a cluster within a window: how often, on how many nodes and GPUs, and when last.
SELECT
    cluster,
    kind,
    code,
    COUNT(*) AS n_events,
    COUNT(DISTINCT node) AS n_nodes,
    COUNT(DISTINCT (node, gpu)) FILTER (gpu IS NOT NULL) AS n_gpus,
    ARG_MIN(severity, CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END) AS severity,
    ARG_MAX(class, ts) AS class,
    ARG_MAX(action, ts) AS action,
    MIN(ts) AS first_at,
    MAX(ts) AS last_at,
    ARG_MAX(node, ts) AS last_node
FROM health_events
WHERE cluster = $cluster AND ts >= $since AND ts < $until
GROUP BY cluster, kind, code
ORDER BY
    CASE ARG_MIN(severity, CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END)
        WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2
    END,
    n_events DESC,
    kind,
    code;
