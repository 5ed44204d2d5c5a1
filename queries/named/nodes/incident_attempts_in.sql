-- One row is an attempt that an incident of a cluster within a window touches: what the incident was, whose the attempt, and how it ended.
SELECT
    h.cluster,
    h.scheduler,
    h.job_id,
    h.submitted_at,
    r.run_id,
    a."user",
    a.name,
    a.state,
    a.ended_at,
    h.node,
    h.started_at,
    h.n_events,
    h.severity,
    h.at_end,
    i.kinds,
    i.gpus,
    i.action
FROM attempt_health AS h
JOIN health_incidents AS i USING (cluster, node, started_at)
JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE h.cluster = $cluster AND i.started_at < $until AND i.ended_at >= $since
ORDER BY h.started_at DESC, h.node, h.job_id, h.submitted_at;
