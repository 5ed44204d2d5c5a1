-- One row is a node that counted as present until a moment; `listed`: whether an inventory of the moment itself names it.
WITH snapshots AS (
    SELECT ts FROM whole_looks WHERE cluster = $cluster AND source = 'slurm.nodes'
),
listed AS (
    SELECT node
    FROM nodes
    WHERE cluster = $cluster
      AND (
        $moment IN (valid_from, last_seen_at)
        OR ($moment BETWEEN valid_from AND last_seen_at AND EXISTS (SELECT 1 FROM snapshots WHERE ts = $moment))
      )
)
SELECT DISTINCT n.node, EXISTS (SELECT 1 FROM listed AS l WHERE l.node = n.node) AS listed
FROM nodes AS n
WHERE n.cluster = $cluster AND n.valid_from < $moment
  AND NOT EXISTS (SELECT 1 FROM snapshots AS l WHERE l.ts > n.last_seen_at AND l.ts < $moment)
ORDER BY n.node;
