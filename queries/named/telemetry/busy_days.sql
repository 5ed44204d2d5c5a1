-- One row is a UTC day of a cluster with GPU samples, or of which hours of busy GPUs are stored: the digests of its files of samples (null: none), how many samples of the cluster are in no file, the digest that its hours were computed from (null: not stored, or their file is gone), and when.
WITH sampled AS (
    SELECT day, string_agg(sha256, ' ' ORDER BY sha256) AS files
    FROM partitions
    WHERE table_name = 'gpu_samples' AND cluster = $cluster AND removed_version IS NULL AND rows > 0
    GROUP BY day
),
kept AS (
    SELECT DISTINCT day FROM partitions
    WHERE table_name = 'gpu_busy_hours' AND cluster = $cluster AND removed_version IS NULL
),
stored AS (
    SELECT d.day, d.inputs, d.computed_at FROM busy_days AS d SEMI JOIN kept USING (day) WHERE d.cluster = $cluster
)
SELECT
    COALESCE(s.day, t.day) AS day,
    s.files,
    (SELECT COUNT(*) FROM raw.gpu_samples WHERE cluster = $cluster) AS n_beside,
    t.inputs,
    t.computed_at
FROM sampled AS s
FULL JOIN stored AS t ON s.day = t.day
ORDER BY day;
