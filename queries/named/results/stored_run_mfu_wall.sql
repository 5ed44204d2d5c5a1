-- One row is the MFU of a logged run over all time that it was allocated GPUs, as it was stored for exactly this window; none unless the last computation is the newest change.
SELECT m.*
FROM run_mfu_wall AS m
WHERE
    m.cluster = $cluster
    AND m.window_from = $since
    AND m.window_until = $until
    AND (SELECT split_part(value, ' ', 1) FROM meta WHERE key = 'results') = (SELECT value FROM meta WHERE key = 'data_version');
