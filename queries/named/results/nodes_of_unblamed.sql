-- One row is a node of an attempt that infrastructure interrupted within a window and of which no node is to blame.
SELECT DISTINCT i.cluster, i.run_id, i.attempt_no, i.ended_at, UNNEST(l.nodes) AS node
FROM run_interruptions AS i
JOIN run_attempts AS r USING (cluster, run_id, attempt_no)
JOIN stored.attempts AS a
    ON r.cluster = a.cluster AND r.scheduler = a.scheduler AND r.job_id = a.job_id AND r.submitted_at = a.submitted_at
JOIN node_lists AS l USING (node_list)
WHERE i.cluster = $cluster
  AND i.ended_at >= $since
  AND i.ended_at < $until
  AND i.class = 'infrastructure'
  AND i.node IS NULL
ORDER BY i.run_id, i.attempt_no, node;
