-- One row is a run, with its GPU-time and ETTR over the whole time that its cluster has data of; unknown where it has none.
SELECT
    cluster,
    run_id AS run,
    COALESCE(r.name, '') AS name,
    COALESCE(r."user", 'unknown') AS "user",
    COALESCE(r.account, 'unknown') AS account,
    COALESCE(r."partition", 'unknown') AS "partition",
    COALESCE(r.state, 'unknown') AS state,
    CAST(r.n_gpus AS DOUBLE) AS gpus,
    CAST(r.n_attempts AS DOUBLE) AS attempts,
    r.first_submitted_at AS submitted_at,
    r.started_at,
    r.ended_at,
    m.allocated_gpu_s,
    m.productive_gpu_s,
    m.ettr,
    m.ettr_low,
    m.ettr_high
FROM runs AS r
LEFT JOIN run_results AS m USING (cluster, run_id)
ORDER BY ALL;
