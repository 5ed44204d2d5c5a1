-- One row is a UTC day before `$before` of which a cluster has samples of GPUs or nodes.
SELECT
    cluster,
    table_name,
    day,
    CAST(SUM(rows) AS BIGINT) AS rows,
    CAST(SUM(bytes) AS BIGINT) AS bytes
FROM partitions
WHERE removed_version IS NULL AND table_name IN ('gpu_samples', 'node_samples') AND day < $before
GROUP BY ALL
ORDER BY ALL;
