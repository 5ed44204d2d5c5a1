-- stop: an attempt has a node twice, or nodes belong to no attempt
SELECT n.cluster, n.scheduler, n.job_id, n.submitted_at, n.node, COUNT(*) AS times
FROM attempt_nodes AS n
LEFT JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL
HAVING COUNT(*) > 1 OR COUNT(a.job_id) = 0;
