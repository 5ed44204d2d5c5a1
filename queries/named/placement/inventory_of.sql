-- One row is a node that existed with its GPUs for an interval, as metrics read it.
SELECT cluster, node, started_at, ended_at, CAST(gpus * 1000 AS BIGINT) AS milli_gpus, gpu_model, evidence
FROM inventory
WHERE cluster = $cluster
ORDER BY node, started_at;
