-- One row is a version of the GPUs' driver that telemetry of a node named on a UTC day that the window touches.
SELECT cluster, node, ts, version, first_seen_at, last_seen_at
FROM driver_versions
WHERE cluster = $cluster AND ts > $since::TIMESTAMPTZ - INTERVAL 1 DAY AND ts < $until
ORDER BY node, ts, first_seen_at, version;
