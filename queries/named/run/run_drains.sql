-- One row is a node out of service while a run held it, or up to 5 minutes after: when, in which state, and why.
SELECT DISTINCT
    s.node,
    s.started_at,
    s.ended_at,
    s.state,
    s.state_raw,
    s.reason,
    s.planned
FROM run_attempts AS r
JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
JOIN attempt_nodes AS n USING (cluster, scheduler, job_id, submitted_at)
JOIN node_states AS s ON s.cluster = n.cluster AND s.node = n.node
WHERE
    r.cluster = $cluster
    AND r.run_id = $run_id
    AND a.started_at IS NOT NULL
    AND s.started_at <= COALESCE(a.ended_at, s.started_at) + INTERVAL 5 MINUTE
    AND COALESCE(s.ended_at, a.started_at) >= a.started_at
ORDER BY s.started_at, s.node, s.state_raw;
