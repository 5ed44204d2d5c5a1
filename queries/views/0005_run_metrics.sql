-- One row is one number about a run in the time that was computed. Columns as in cluster_metrics.
CREATE OR REPLACE VIEW run_metrics AS
WITH own AS (
    SELECT
        r.*,
        c.since AS window_from,
        c.until AS window_until
    FROM run_results AS r
    JOIN computes AS c USING (cluster)
),
-- The expected ETTR as metrics.ettr.expected works it out: inputs, the share that is lost, and the form that applies.
to_expect AS (
    SELECT
        o.cluster,
        o.run_id,
        o.window_from,
        o.window_until,
        o.wall_gpu_s,
        e.evidence,
        CAST(o.n_gpus AS DOUBLE) AS gpus,
        e.gpu_days_per_failure * 86400 / CAST(o.n_gpus AS DOUBLE) AS mttf_s,
        CASE
            WHEN o.startup_gpu_s > 0 AND COALESCE(o.logged_starts_gpus, o.started_gpus) > 0
                THEN o.startup_gpu_s / COALESCE(o.logged_starts_gpus, o.started_gpus)
            ELSE e.restart_s
        END AS restart_s,
        COALESCE(o.interval_s, e.interval_s) AS interval_s,
        CASE WHEN o.interval_s IS NULL THEN e.write_s ELSE COALESCE(o.write_s, 0) END AS write_s,
        CASE
            WHEN o.started_gpus > 0 THEN (o.queued_initial_gpu_s + o.queued_requeue_gpu_s) / o.started_gpus ELSE 0
        END AS queue_s,
        CASE WHEN o.ettr IS NOT NULL THEN o.productive_gpu_s / CAST(o.n_gpus AS DOUBLE) END AS productive_s
    FROM own AS o
    JOIN expected_inputs AS e USING (cluster)
    WHERE o.n_attempts IS NOT NULL AND o.n_gpus > 0
),
lost AS (
    SELECT
        *,
        (restart_s + interval_s / 2) / mttf_s AS lost_share,
        GREATEST(1 - (restart_s + interval_s / 2) / mttf_s, 0) AS kept,
        1 / (1 + write_s / interval_s) AS training,
        (interval_s + write_s) / mttf_s AS period
    FROM to_expect
),
forms AS (
    SELECT
        *,
        kept * training / (1 + queue_s / mttf_s) AS with_queue,
        CASE
            WHEN productive_s > 0 AND mttf_s IS NOT NULL AND kept > 0
                THEN productive_s / ((productive_s + restart_s) / kept * (1 + queue_s / mttf_s) + queue_s) * training
            WHEN productive_s > 0 AND mttf_s IS NOT NULL THEN 0
        END AS finite,
        CASE
            WHEN isinf(mttf_s) OR period < 1e-9 THEN kept * training / (1 + queue_s / mttf_s)
            ELSE interval_s / mttf_s * exp(-(restart_s / mttf_s) - period) / (1 - exp(-period)) / (1 + queue_s / mttf_s)
        END AS exact
    FROM lost
),
expected AS (
    SELECT
        *,
        CASE WHEN lost_share > 0.1 THEN exact ELSE COALESCE(finite, with_queue) END AS ettr_expected,
        CASE WHEN lost_share > 0.1 THEN 'exact' WHEN productive_s > 0 THEN 'finite' ELSE 'with queue' END AS form
    FROM forms
),
numbers AS (
    SELECT
        cluster,
        run_id,
        window_from,
        window_until,
        'ettr' AS metric,
        ettr AS value,
        productive_gpu_s AS numerator,
        wall_gpu_s AS denominator,
        n_attempts AS n,
        ettr_low AS bound_low,
        ettr_high AS bound_high,
        'accounting' AS evidence, -- what decides a run's wall time is accounting's: the weakest of what was measured
        NULL AS note
    FROM own
    WHERE n_attempts IS NOT NULL
    UNION ALL
    SELECT
        cluster,
        run_id,
        window_from,
        window_until,
        'ettr_without_initial_queue',
        ettr_without_initial_queue,
        productive_gpu_s,
        after_start_gpu_s,
        n_attempts,
        ettr_without_initial_queue_low,
        ettr_without_initial_queue_high,
        'accounting',
        NULL
    FROM own
    WHERE n_attempts IS NOT NULL
    UNION ALL
    SELECT
        cluster,
        run_id,
        window_from,
        window_until,
        'ettr_with_checkpoint_writes',
        ettr_with_checkpoint_writes,
        saved_gpu_s,
        wall_gpu_s,
        n_attempts,
        ettr_with_checkpoint_writes_low,
        ettr_with_checkpoint_writes_high,
        'accounting',
        NULL
    FROM own
    WHERE n_attempts IS NOT NULL
    UNION ALL
    SELECT
        cluster,
        run_id,
        window_from,
        window_until,
        'ettr_imputed',
        ettr_imputed,
        imputed_gpu_s,
        wall_gpu_s,
        n_attempts,
        NULL,
        NULL,
        'assumed',
        NULL
    FROM own
    WHERE n_attempts IS NOT NULL
    UNION ALL
    SELECT
        cluster,
        run_id,
        window_from,
        window_until,
        'ettr_expected',
        ettr_expected,
        ettr_expected * wall_gpu_s,
        wall_gpu_s,
        NULL,
        NULL,
        NULL,
        evidence,
        form || ' form'
    FROM expected
    UNION ALL
    SELECT
        cluster,
        run_id,
        window_from,
        window_until,
        'goodput_job',
        goodput_job,
        job_productive_s,
        job_s,
        NULL,
        NULL,
        NULL,
        'log',
        job_note
    FROM own
    WHERE job_logged
)
SELECT
    cluster,                -- cluster
    run_id,                 -- run
    metric,                 -- definition id
    window_from,            -- from
    window_until,           -- to
    'ratio' AS unit,        -- unit
    value,                  -- the number; null means that it is unknown
    numerator,              -- numerator of the value
    denominator,            -- denominator of the value
    n,                      -- attempts
    bound_low,              -- the value if all unobserved time was unproductive
    bound_high,             -- ... if it was all productive
    evidence,               -- weakest kind of evidence it rests on
    note                    -- caveats for the reader
FROM numbers;
