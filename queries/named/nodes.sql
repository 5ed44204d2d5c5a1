-- One row is a node's inventory as observed, as metrics read it.
SELECT
    cluster,
    node,
    valid_from,
    last_seen_at,
    CAST(n_gpus * 1000 AS BIGINT) AS milli_gpus,
    gpu_model,
    partitions
FROM nodes
WHERE cluster = $cluster
ORDER BY node, valid_from;
