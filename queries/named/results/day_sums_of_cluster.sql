-- One row is the GPU-seconds of a cluster in one category on one UTC day (its number since 1970) within a window of whole days, and those of them that straggled.
SELECT
    CAST(day - DATE '1970-01-01' AS INTEGER) AS day,
    cluster AS subject,
    state,
    category,
    cause,
    evidence,
    gpu_seconds,
    straggling_gpu_seconds
FROM day_sums
WHERE cluster = $cluster
  AND day >= CAST(make_timestamp(epoch_us($since)) AS DATE)
  AND day <= CAST(make_timestamp(epoch_us($until)) AS DATE);
