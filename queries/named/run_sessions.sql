-- One row is a process of a training run that logged, of a cluster, and when its log was last read.
SELECT
    cluster,
    run_id,
    scheduler,
    job_id,
    restart_count,
    rank,
    started_at,
    ended_at,
    world,
    node,
    gpu_model,
    n_gpus,
    dtype,
    params,
    params_active,
    layers,
    heads,
    head_dim,
    seq_len,
    flops_per_token,
    flop_convention,
    origin,
    read_at
FROM run_sessions
WHERE cluster = $cluster
ORDER BY run_id, started_at, scheduler, job_id, rank;
