-- One row is the node list of a reservation that kept nodes for some at a moment. One that a later list lacks, before its end,
-- was withdrawn.
SELECT DISTINCT r.cluster, r.node_list
FROM reservations AS r
WHERE r.cluster = $cluster
  AND NOT r.maintenance -- those nodes are out of service
  AND r.started_at < $at
  AND COALESCE(r.ended_at, 'infinity') >= $at
  AND COALESCE(r.last_seen_at, 'infinity') >= COALESCE((
      SELECT MAX(covers_until)
      FROM loads
      WHERE cluster = $cluster AND source = 'slurm.reservations' AND covers_from = covers_until AND covers_until <= $at
  ), '-infinity')
  AND r.node_list IS NOT NULL
ORDER BY r.node_list;
