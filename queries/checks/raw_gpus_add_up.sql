-- stop: the GPUs on the nodes of a cluster's attempts do not add up to the attempts' own
WITH own AS (
    -- Those of placements are not spread, but recorded: pods of an attempt may hold the same GPUs one after the other.
    SELECT cluster, SUM(n_gpus) AS gpus FROM attempt_gpus
    ANTI JOIN placements AS p USING (cluster, scheduler, job_id, submitted_at)
    WHERE node_list IS NOT NULL AND (ended_at IS NULL OR ended_at >= $since)
    GROUP BY cluster
),
on_nodes AS (
    SELECT cluster, SUM(n_gpus) AS gpus FROM attempt_node_times
    ANTI JOIN placements AS p USING (cluster, scheduler, job_id, submitted_at)
    WHERE ended_at IS NULL OR ended_at >= $since
    GROUP BY cluster
)
SELECT own.cluster, own.gpus, on_nodes.gpus AS on_nodes
FROM own LEFT JOIN on_nodes USING (cluster)
WHERE own.gpus IS DISTINCT FROM on_nodes.gpus;
