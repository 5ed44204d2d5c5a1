-- One row is a reason for which rows of a source were refused, with an example.
SELECT
    cluster,
    source,
    reason,
    COUNT(*) AS n,
    MIN(origin || ':' || COALESCE(CAST(line AS VARCHAR), '?')) AS first_seen
FROM rejects
GROUP BY cluster, source, reason
ORDER BY n DESC, cluster, source, reason;
