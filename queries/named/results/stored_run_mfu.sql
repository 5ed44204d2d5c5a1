-- One row is MFU or HFU of a run under a convention, over the peak of one data type, as it was stored for exactly this window; none unless the last computation is the newest change.
SELECT m.*
FROM mfu AS m
WHERE
    m.cluster = $cluster
    AND m.window_from = $since
    AND m.window_until = $until
    AND (SELECT split_part(value, ' ', 1) FROM meta WHERE key = 'results') = (SELECT value FROM meta WHERE key = 'data_version');
