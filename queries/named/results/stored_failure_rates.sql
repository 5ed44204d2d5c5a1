-- One row is a failure rate of a cluster in a standard window as it was stored; none unless the last computation is the newest change.
SELECT f.*
FROM failure_rates AS f
WHERE
    f.cluster = $cluster
    AND f.window_from = $since
    AND f.window_until = $until
    AND (SELECT split_part(value, ' ', 1) FROM meta WHERE key = 'results') = (SELECT value FROM meta WHERE key = 'data_version');
