-- One row is a cluster whose name begins with `prefix`.
SELECT DISTINCT cluster FROM loads WHERE starts_with(cluster, $prefix) ORDER BY cluster LIMIT 500;
