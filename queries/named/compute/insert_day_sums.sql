-- Writes the sums of the days of a cluster's ledger from one UTC midnight (null: from its beginning) to another (null: to its end).
INSERT INTO day_sums BY NAME
SELECT
    cluster,
    CAST(make_timestamp(epoch_us(started_at)) AS DATE) AS day,
    state,
    category,
    cause,
    evidence,
    SUM(gpu_seconds) AS gpu_seconds,
    SUM(straggling_gpu_seconds) AS straggling_gpu_seconds
FROM gpu_time
WHERE cluster = $cluster
  AND started_at >= COALESCE($since::TIMESTAMPTZ, '-infinity')
  AND started_at < COALESCE($until::TIMESTAMPTZ, 'infinity')
GROUP BY ALL;
