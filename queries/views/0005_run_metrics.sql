-- One row is one number about a run in the time that was computed. Columns as in cluster_metrics.
CREATE OR REPLACE VIEW run_metrics AS
WITH numbers AS (
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
    FROM run_results
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
    FROM run_results
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
    FROM run_results
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
    FROM run_results
    WHERE n_attempts IS NOT NULL
    UNION ALL
    SELECT
        cluster,
        run_id,
        window_from,
        window_until,
        'ettr_expected',
        ettr_expected,
        expected_gpu_s,
        wall_gpu_s,
        NULL,
        NULL,
        NULL,
        expected_evidence,
        expected_by || ' form'
    FROM run_results
    WHERE expected_by IS NOT NULL
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
    FROM run_results
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
