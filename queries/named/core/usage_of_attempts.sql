-- One row is what Slurm recorded of the use of a step (of the job itself where step is empty), with the attempt that it belongs to and what that held: the attempt of the same row of slurmdbd, or else those that had begun by the step's Start and not ended (of several the last one counts).
SELECT
    u.cluster,
    u.scheduler,
    u.job_id,
    a.submitted_at,
    a.started_at AS held_from,
    u.started_at,
    a.elapsed_s AS held_s,
    a.n_nodes AS held_nodes,
    a.n_cpus AS held_cpus,
    CAST(a.n_gpus AS DOUBLE) AS held_gpus,
    a.alloc_mem_bytes AS held_bytes,
    u.step,
    u.elapsed_s,
    u.n_tasks,
    u.cpu_s,
    u.max_rss_bytes,
    u.max_rss_node,
    u.tasks_rss_bytes,
    u.gpu_util_max,
    u.gpu_mem_max_bytes,
    u.energy_j
FROM step_usage AS u
JOIN stored.attempts AS a
    ON u.cluster = a.cluster AND u.scheduler = a.scheduler AND u.job_id = a.job_id
    AND CASE
        WHEN u.db_index IS NOT NULL AND a.db_index IS NOT NULL THEN u.db_index = a.db_index
        ELSE u.started_at >= a.started_at AND u.started_at <= COALESCE(a.ended_at, 'infinity')
    END
WHERE u.cluster = $cluster
ORDER BY u.job_id, a.submitted_at, u.started_at, u.step;
