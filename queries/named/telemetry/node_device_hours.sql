-- One row is an hour (since 1970) of a quantity of a port or mount of a node of a cluster, in a time of whole hours: of samples, else of a roll-up of nearly all of the hour. Filesystems count in hours with an operation per second or more; a port counts as carrying a megabyte per second at least, so that idle ports are alike.
WITH means AS (
    SELECT node, metric, device, epoch_us(ts) // 3600000000 AS hour, AVG(value) AS value, 0 AS place
    FROM node_samples
    WHERE cluster = $cluster AND ts >= $since AND ts < $until
        AND metric IN ('ib_received_bytes_per_s', 'ib_transmitted_bytes_per_s', 'ib_link_rate_bytes_per_s', 'fs_operations_per_s', 'fs_response_s_per_s')
    GROUP BY node, metric, device, hour
    HAVING SUM(interval_s) >= 1800
    UNION ALL
    SELECT node, metric, device, epoch_us(ts) // 3600000000 AS hour, mean AS value, 1 AS place
    FROM node_hours
    WHERE cluster = $cluster AND ts >= $since AND ts < $until AND covered_s >= 3540 AND mean IS NOT NULL
        AND metric IN ('ib_received_bytes_per_s', 'ib_transmitted_bytes_per_s', 'ib_link_rate_bytes_per_s', 'fs_operations_per_s', 'fs_response_s_per_s')
),
once AS (
    SELECT node, metric, device, hour, arg_min(value, place) AS value FROM means GROUP BY node, metric, device, hour
),
wide AS (
    SELECT
        node,
        device,
        hour,
        MAX(value) FILTER (metric = 'ib_received_bytes_per_s') AS received,
        MAX(value) FILTER (metric = 'ib_transmitted_bytes_per_s') AS transmitted,
        MAX(value) FILTER (metric = 'ib_link_rate_bytes_per_s') AS link_rate,
        MAX(value) FILTER (metric = 'fs_operations_per_s') AS operations,
        MAX(value) FILTER (metric = 'fs_response_s_per_s') AS response_s
    FROM once
    GROUP BY node, device, hour
)
SELECT node, device, hour, 'ib_throughput' AS signal, CAST(GREATEST(received + transmitted, 1000000) AS FLOAT) AS value
FROM wide
WHERE received + transmitted IS NOT NULL
UNION ALL
SELECT node, device, hour, 'ib_link_rate' AS signal, CAST(link_rate AS FLOAT) AS value FROM wide
WHERE link_rate IS NOT NULL
UNION ALL
SELECT node, device, hour, 'filesystem_response' AS signal, CAST(response_s / operations AS FLOAT) AS value FROM wide
WHERE operations >= 1 AND response_s IS NOT NULL
ORDER BY node, device, signal, hour;
