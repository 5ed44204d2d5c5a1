-- One row is a node that an attempt of a run held, or, without a run, any node that an inventory, an attempt or an event of the cluster names.
SELECT DISTINCT node
FROM (
    SELECT n.node
    FROM attempt_nodes AS n
    JOIN run_attempts AS r USING (cluster, scheduler, job_id, submitted_at)
    WHERE r.cluster = $cluster AND (r.run_id = $run OR $run IS NULL)
      AND (r.attempt_no = $attempt OR $attempt IS NULL)
    UNION ALL
    SELECT node FROM nodes WHERE cluster = $cluster AND $run IS NULL
    UNION ALL
    SELECT node FROM node_states WHERE cluster = $cluster AND $run IS NULL
)
ORDER BY node;
