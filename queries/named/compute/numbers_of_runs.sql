-- One row is the stored sums of a run of a cluster, of which its other numbers follow, except those from its log. In no particular order: there are millions.
SELECT
    cluster,
    run_id,
    inputs,
    n_attempts,
    CAST(n_gpus * 1000 AS BIGINT) AS milli_gpus,
    allocated_gpu_s,
    productive_gpu_s,
    productive_sure_gpu_s,
    checkpoint_gpu_s,
    startup_gpu_s,
    unseen_gpu_s,
    beside_idle_gpu_s,
    queued_initial_gpu_s,
    queued_requeue_gpu_s,
    imputed_gpu_s,
    by_log_gpu_s,
    by_telemetry_gpu_s,
    by_accounting_gpu_s,
    by_assumed_gpu_s,
    n_starts,
    started_gpus
FROM run_results
WHERE cluster = $cluster;
