-- One row is one execution of a scheduler job as it is stored, with the GPUs it held by the best source there is.
CREATE OR REPLACE VIEW attempt_gpus AS
SELECT
    a.* REPLACE (
        CASE
            WHEN a.n_gpus IS NOT NULL THEN a.n_gpus
            -- Parts of GPUs: no source records the share of a GPU that a shard is.
            WHEN regexp_matches(a.alloc_tres, '(^|,)gres/(shard|mps)[:=]') THEN NULLIF(e.n_gpus, 0)
            WHEN e.job_id IS NULL AND COALESCE(a.started_at, a.submitted_at) >= t.since THEN 0
            ELSE e.n_gpus
        END AS n_gpus,
        CASE
            WHEN a.req_gpus IS NOT NULL THEN a.req_gpus
            WHEN regexp_matches(a.req_tres, '(^|,)gres/(shard|mps)[:=]') THEN NULLIF(a.gpus_asked, 0)
            WHEN a.req_tres IS NOT NULL AND COALESCE(a.started_at, a.submitted_at) >= t.since THEN 0
            ELSE a.gpus_asked
        END AS req_gpus
    ),
    CASE
        WHEN a.n_gpus IS NOT NULL THEN 'accounting'
        WHEN regexp_matches(a.alloc_tres, '(^|,)gres/(shard|mps)[:=]') AND COALESCE(e.n_gpus, 0) = 0 THEN 'unknown'
        WHEN e.job_id IS NULL AND COALESCE(a.started_at, a.submitted_at) >= t.since THEN 'accounting'
        ELSE COALESCE(e.gpus_from, 'unknown')
    END AS gpus_from -- the source of n_gpus: accounting, slurmctld (its detail of the job), steps, exclusive nodes (all GPUs of its nodes), nodes without GPUs, request (submit line, tres_per_*); unknown: no source recorded it and n_gpus is null
FROM stored.attempts AS a
LEFT JOIN (SELECT cluster, 'slurm' AS scheduler, since FROM accounted_gpus) AS t USING (cluster, scheduler)
LEFT JOIN attempt_estimated_gpus AS e USING (cluster, scheduler, job_id, submitted_at);
