-- Writes the ledger of a cluster (the frame `ledger`): exact GPU-seconds from whole microseconds and milli-GPUs.
INSERT INTO gpu_time BY NAME
SELECT
    cluster,
    node,
    scheduler,
    job_id,
    submitted_at,
    started_at,
    ended_at,
    state,
    category,
    cause,
    evidence,
    CAST(milli_gpus * 0.001 AS DECIMAL(12, 3)) AS gpus,
    CAST(milli_gpus * 0.001 * (epoch_us(ended_at) - epoch_us(started_at)) * 0.000001 AS DECIMAL(18, 9)) AS gpu_seconds
FROM ledger;
