-- One row is a GPU that is stored under a UUID of the frame `incoming` in place of its index, and when its hours begin.
WITH stored_gpus AS (
    SELECT cluster, node, gpu, ts FROM gpu_hours
    UNION ALL
    SELECT cluster, node, gpu, NULL AS ts FROM health_events
)

SELECT s.cluster, s.node, s.gpu, min(s.ts) AS first_hour, max(s.ts) AS last_hour
FROM stored_gpus AS s
SEMI JOIN incoming AS i
    ON s.cluster = i.cluster AND regexp_replace(lower(s.gpu), '^gpu-', '') = i.uuid
WHERE NOT regexp_full_match(s.gpu, '[0-9]*')
GROUP BY ALL;
