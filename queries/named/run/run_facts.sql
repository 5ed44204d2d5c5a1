-- One row is an attempt of a run, with what accounting records of it, in the order of the run.
SELECT
    r.attempt_no,
    r.joined_by,
    a.job_id,
    a.display_id,
    a.submitted_at,
    a.first_submitted_at,
    a.eligible_at,
    a.started_at,
    COALESCE(o.ended_at, a.ended_at) AS ended_at,
    a.end_guessed,
    CASE WHEN o.job_id IS NULL THEN a.state ELSE 'RUNAWAY' END AS state,
    a.reason,
    a.exit_code,
    a.exit_signal,
    a."user",
    a.account,
    a."partition",
    a.qos,
    a.name,
    a.time_limit_s,
    a.suspended_s,
    a.req_nodes,
    a.n_nodes,
    a.req_cpus,
    a.n_cpus,
    CAST(a.req_gpus AS DOUBLE) AS req_gpus,
    CAST(a.n_gpus AS DOUBLE) AS n_gpus,
    a.gpus_from,
    a.gpu_model,
    a.req_mem_bytes,
    a.alloc_mem_bytes,
    a.node_list,
    a.het_offset
FROM run_attempts AS r
JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN runaway_attempts AS o USING (cluster, scheduler, job_id, submitted_at)
WHERE r.cluster = $cluster AND r.run_id = $run_id
ORDER BY r.attempt_no, a.het_offset, a.submitted_at, a.job_id;
