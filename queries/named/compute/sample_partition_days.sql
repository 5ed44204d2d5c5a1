-- One row is a UTC day of which there are files of a sample table and cluster.
SELECT DISTINCT day
FROM partitions
WHERE table_name = $table AND cluster = $cluster AND removed_version IS NULL
ORDER BY day;
