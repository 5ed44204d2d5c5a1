-- One row is how many nodes of a cluster count within a window that no inventory names, only accounting, and their share of its capacity; null without capacity.
WITH there AS (
    SELECT
        node,
        node NOT IN (SELECT node FROM nodes WHERE cluster = $cluster) AS unnamed,
        gpus * (epoch_us(LEAST(ended_at, $until)) - epoch_us(GREATEST(started_at, $since))) AS gpu_us
    FROM capacity
    WHERE cluster = $cluster AND ended_at > $since AND started_at < $until
)
SELECT
    COUNT(DISTINCT node) FILTER (unnamed) AS n_nodes,
    COALESCE(CAST(SUM(gpu_us) FILTER (unnamed) AS DOUBLE), 0) / NULLIF(CAST(SUM(gpu_us) AS DOUBLE), 0) AS share
FROM there;
