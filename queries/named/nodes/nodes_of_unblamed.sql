-- One row is a node of an attempt that infrastructure interrupted within a window and of which no node is to blame.
WITH
-- There are few: they are looked for first, so that millions of attempts are not joined with each other.
unblamed AS MATERIALIZED (
    SELECT cluster, run_id, attempt_no, ended_at
    FROM run_interruptions
    WHERE cluster = $cluster AND ended_at > $since AND ended_at <= $until AND class = 'infrastructure' AND node IS NULL
),
parts AS MATERIALIZED (
    SELECT u.*, r.scheduler, r.job_id, r.submitted_at
    FROM run_attempts AS r
    JOIN unblamed AS u USING (cluster, run_id, attempt_no)
)
SELECT DISTINCT p.cluster, p.run_id, p.attempt_no, p.ended_at, UNNEST(l.nodes) AS node
FROM parts AS p
JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
JOIN node_lists AS l USING (node_list)
ORDER BY p.run_id, p.attempt_no, node;
