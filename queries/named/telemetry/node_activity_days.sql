-- One row is a UTC day of which the sums of nodes of a cluster are stored, the last one first, with what they were made of, and whether the last computation is the newest change; a day whose files are gone is left out.
WITH kept AS (
    SELECT
        day,
        COALESCE(SUM(rows) FILTER (table_name = 'node_day_sums'), 0)::BIGINT AS n_series,
        COALESCE(SUM(rows) FILTER (table_name = 'attempt_node_day_sums'), 0)::BIGINT AS n_attempts
    FROM partitions
    WHERE table_name IN ('node_day_sums', 'attempt_node_day_sums') AND cluster = $cluster AND removed_version IS NULL
    GROUP BY day
)
SELECT
    d.day,
    d.inputs,
    d.after,
    d.firsts,
    d.n_series,
    d.n_attempts,
    (SELECT split_part(value, ' ', 1) FROM meta WHERE key = 'results') IS NOT DISTINCT FROM (SELECT value FROM meta WHERE key = 'data_version') AS newest
FROM node_activity_days AS d
SEMI JOIN kept AS k ON d.day = k.day AND d.n_series = k.n_series AND d.n_attempts = k.n_attempts
WHERE d.cluster = $cluster
ORDER BY day DESC;
