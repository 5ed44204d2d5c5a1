-- One row is MFU or HFU of all logged runs of a cluster under a convention, as it was stored for exactly this window; none unless the last computation is the newest change.
SELECT t.*
FROM mfu_totals AS t
WHERE
    t.cluster = $cluster
    AND t.window_from = $since
    AND t.window_until = $until
    AND (SELECT split_part(value, ' ', 1) FROM meta WHERE key = 'results') = (SELECT value FROM meta WHERE key = 'data_version');
