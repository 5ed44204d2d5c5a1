-- One row is a rank of some runs with the node on which it last recorded times.
SELECT run_id, rank, ARG_MAX(node, started_at) AS node
FROM rank_steps
WHERE cluster = $cluster AND run_id IN (SELECT UNNEST($runs))
GROUP BY run_id, rank
ORDER BY run_id, rank;
