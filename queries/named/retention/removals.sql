-- One row is a table of a cluster of which retention took rows out: how many in all, up to when, and when it last did.
SELECT
    cluster,
    table_name,
    MAX(before) AS before,
    CAST(SUM(rows) AS BIGINT) AS rows,
    MAX(removed_at) AS removed_at
FROM removals
GROUP BY ALL
ORDER BY ALL;
