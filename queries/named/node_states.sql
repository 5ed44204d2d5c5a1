-- One row is a node in one state for an interval, as metrics read it.
-- Where Slurm's events were read they say when a node was down; a snapshot's reason may be older than the state it
-- stands beside (Slurm keeps the first reason), so of snapshots only drains count then: they begin when they are asked
-- for, and events tell of them only once the node's last job is gone.
SELECT cluster, node, started_at, ended_at, state, reason, planned
FROM node_states
WHERE cluster = $cluster
  AND (
    source <> 'slurm.nodes'
    OR state IN ('drained', 'maintenance')
    OR NOT EXISTS (SELECT 1 FROM loads AS l WHERE l.cluster = $cluster AND l.source = 'slurm.events')
  )
ORDER BY node, started_at, state;
