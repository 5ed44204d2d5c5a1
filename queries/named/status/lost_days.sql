-- One row is a day of a cluster's samples of which damaged files were taken out, and that has fewer rows now than before: it is to be loaded again.
WITH lost AS (
    SELECT cluster, table_name, day, MAX(rows) AS rows, MAX(noticed_at) AS noticed_at
    FROM lost_files
    GROUP BY ALL
),
now_there AS (
    SELECT cluster, table_name, day, CAST(SUM(rows) AS BIGINT) AS rows
    FROM partitions
    WHERE removed_version IS NULL
    GROUP BY ALL
)
SELECT l.cluster, l.table_name, l.day, l.rows AS rows_before, COALESCE(n.rows, 0) AS rows_now, l.noticed_at
FROM lost AS l
LEFT JOIN now_there AS n USING (cluster, table_name, day)
WHERE COALESCE(n.rows, 0) < l.rows
ORDER BY ALL;
