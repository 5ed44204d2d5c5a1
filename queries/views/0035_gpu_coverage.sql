-- One row is a GPU and an hour between the first and the last of which there is telemetry of it, and how much of the hour is known. Hours of which nothing is known are among them: what a GPU did then is missing, not zero.
CREATE OR REPLACE VIEW gpu_coverage AS
-- Samples are rolled up when they are loaded, so the roll-ups tell of all of them, and of those that are gone.
WITH known AS (
    SELECT cluster, node, gpu, ts, MAX(covered_s) AS covered_s
    FROM gpu_hours
    GROUP BY ALL
),
hours AS (
    SELECT cluster, node, gpu, UNNEST(generate_series(MIN(ts), MAX(ts), INTERVAL 1 HOUR)) AS ts
    FROM known
    GROUP BY cluster, node, gpu
),
told AS (
    SELECT cluster, node, gpu, ts, LEAST(COALESCE(k.covered_s, 0), 3600) AS covered_s
    FROM hours
    LEFT JOIN known AS k USING (cluster, node, gpu, ts)
)
SELECT
    cluster,                                           -- cluster
    node,                                              -- node
    gpu,                                               -- GPU
    ts,                                                -- beginning of the hour
    covered_s,                                         -- seconds of the hour that its best known metric speaks for
    subtract(3600, covered_s) AS missing_s             -- seconds of it that nothing speaks for
FROM told;
