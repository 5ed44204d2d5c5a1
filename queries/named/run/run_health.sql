-- One row is an incident on a node while a run held it, or up to 5 minutes after: when, what, and whether it may have ended an attempt. The worst first.
SELECT
    i.node,
    i.started_at,
    i.ended_at,
    i.kinds,
    i.gpus,
    i.severity,
    BOOL_OR(h.at_end) AS at_end
FROM run_attempts AS r
JOIN attempt_health AS h USING (cluster, scheduler, job_id, submitted_at)
JOIN health_incidents AS i ON i.cluster = h.cluster AND i.node = h.node AND i.started_at = h.started_at
WHERE r.cluster = $cluster AND r.run_id = $run_id
GROUP BY i.node, i.started_at, i.ended_at, i.kinds, i.gpus, i.severity
ORDER BY
    CASE i.severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END,
    at_end DESC,
    i.started_at,
    i.node
LIMIT 50;
