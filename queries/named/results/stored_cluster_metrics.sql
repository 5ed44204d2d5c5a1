-- One row is a number of a cluster, or of its long runs, in a standard window as it was stored; none unless the last computation is the newest change.
SELECT cm.*
FROM cluster_metrics AS cm
WHERE
    cm.cluster = $cluster
    AND cm.window_from = $since
    AND cm.window_until = $until
    AND (SELECT split_part(value, ' ', 1) FROM meta WHERE key = 'results') = (SELECT value FROM meta WHERE key = 'data_version');
