-- One row is a source of a cluster with what came of the rows that were read last: in one ingest, of however many inputs.
-- The rows of an input of several clusters are counted with the first of them; the others' counts are null.
WITH newest AS (
    SELECT *, MIN(cluster) OVER (PARTITION BY source, origin, digest, loaded_at) = cluster AS counted_here
    FROM loads
    QUALIFY loaded_at = MAX(loaded_at) OVER (PARTITION BY cluster, source)
)
SELECT
    cluster,
    source,
    ANY_VALUE(loaded_at) AS loaded_at,
    COUNT(*) AS inputs,
    CAST(SUM(rows_read) FILTER (counted_here) AS BIGINT) AS rows_read,
    CAST(SUM(rows_loaded + rows_duplicate) FILTER (counted_here) AS BIGINT) AS rows_taken,
    CASE WHEN BOOL_AND(rows_new IS NOT NULL) THEN CAST(SUM(rows_new) FILTER (counted_here) AS BIGINT) END AS rows_new,
    CAST(SUM(rows_skipped) FILTER (counted_here) AS BIGINT) AS rows_skipped,
    CAST(SUM(rows_rejected) FILTER (counted_here) AS BIGINT) AS rows_rejected,
    list_distinct(flatten(LIST(warnings))) AS warnings
FROM newest
GROUP BY cluster, source;
