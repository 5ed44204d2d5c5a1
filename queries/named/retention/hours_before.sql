-- One row is a table of hourly roll-ups of a cluster, with its rows before `$before`.
WITH old AS (
    SELECT cluster, 'gpu_hours' AS table_name FROM gpu_hours WHERE ts < $before
    UNION ALL
    SELECT cluster, 'node_hours' FROM node_hours WHERE ts < $before
)

SELECT cluster, table_name, COUNT(*) AS rows FROM old
GROUP BY ALL
ORDER BY ALL;
