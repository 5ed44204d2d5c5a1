-- One row is a GPU and an hour between the first and the last with telemetry of it, and how much of the hour is observed. Unobserved hours are included: what a GPU did then is missing, not zero.
CREATE OR REPLACE VIEW gpu_coverage AS
-- Samples are rolled up when they are loaded, so the roll-ups cover all of them, and also removed ones.
WITH covered AS (
    SELECT cluster, node, gpu, ts, MAX(covered_s) AS covered_s
    FROM gpu_hours
    GROUP BY ALL
),
hours AS (
    SELECT cluster, node, gpu, UNNEST(generate_series(MIN(ts), MAX(ts), INTERVAL 1 HOUR)) AS ts
    FROM covered
    GROUP BY cluster, node, gpu
),
coverage AS (
    SELECT cluster, node, gpu, ts, LEAST(COALESCE(k.covered_s, 0), 3600) AS covered_s
    FROM hours
    LEFT JOIN covered AS k USING (cluster, node, gpu, ts)
)
SELECT
    cluster,                                           -- cluster
    node,                                              -- node
    gpu,                                               -- GPU
    ts,                                                -- beginning of the hour
    covered_s,                                         -- seconds of the hour that its best covered metric covers
    subtract(3600, covered_s) AS missing_s             -- unobserved seconds of it
FROM coverage;
