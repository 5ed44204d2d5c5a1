-- Writes a part of the ledger of a cluster (the frame `ledger`): exact GPU-seconds from whole microseconds and milli-GPUs. How much of productive time by logs went to stragglers is stored with it (the frame `straggling`: share of an attempt's day).
INSERT INTO gpu_time BY NAME
SELECT
    l.cluster,
    l.node,
    l.scheduler,
    l.job_id,
    l.submitted_at,
    l.started_at,
    l.ended_at,
    l.state,
    l.category,
    l.cause,
    l.evidence,
    CAST(l.milli_gpus * 0.001 AS DECIMAL(12, 3)) AS gpus,
    CAST(l.milli_gpus * (epoch_us(l.ended_at) - epoch_us(l.started_at)) * 0.000000001 AS DECIMAL(18, 9)) AS gpu_seconds,
    CAST(
        l.milli_gpus * (epoch_us(l.ended_at) - epoch_us(l.started_at)) * 0.000000001
        * CAST(s.share AS DECIMAL(10, 9)) AS DECIMAL(18, 9)
    ) AS straggling_gpu_seconds
FROM ledger AS l
LEFT JOIN straggling AS s
    ON l.category = 'productive' AND l.evidence = 'log'
    AND l.scheduler = s.scheduler AND l.job_id = s.job_id AND l.submitted_at = s.submitted_at
    AND CAST(make_timestamp(epoch_us(l.started_at)) AS DATE) = s.day;
