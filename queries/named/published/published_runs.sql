-- One row is a run, with its GPU-time and ETTR over the whole time that its cluster has data of; unknown where it has none.
SELECT
    r.cluster,
    r.run_id AS run,
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
LEFT JOIN computes AS c ON r.cluster = c.cluster
LEFT JOIN run_results AS m
    ON r.cluster = m.cluster AND r.run_id = m.run_id AND c.since = m.window_from AND c.until = m.window_until
ORDER BY ALL;
