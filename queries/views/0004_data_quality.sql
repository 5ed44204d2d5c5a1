-- One row is a source of a cluster: how much of it was read, refused and skipped, and the time it covers.
CREATE OR REPLACE VIEW data_quality AS
SELECT
    cluster,
    source,
    COUNT(*) AS loads,
    MAX(loaded_at) AS last_loaded_at,
    MIN(covers_from) AS covers_from,
    MAX(covers_until) AS covers_until,
    CAST(SUM(rows_read) AS BIGINT) AS rows_read,
    CAST(SUM(rows_loaded) AS BIGINT) AS rows_loaded,
    CAST(SUM(rows_duplicate) AS BIGINT) AS rows_duplicate,
    CAST(SUM(rows_skipped) AS BIGINT) AS rows_skipped,
    CAST(SUM(rows_rejected) AS BIGINT) AS rows_rejected,
    arg_max(warnings, loaded_at) AS last_warnings,
    arg_max(rows_read, loaded_at) AS last_rows_read
FROM loads
GROUP BY cluster, source;
