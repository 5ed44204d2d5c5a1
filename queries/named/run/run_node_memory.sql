-- One row is the mean memory in use on a node of a run, over the time of its nodes that samples cover and that no other job shared.
WITH means AS (
    SELECT
        SUM(a.value_s) FILTER (a.metric = 'memory_total_bytes')
        / SUM(a.observed_s) FILTER (a.metric = 'memory_total_bytes' AND a.value_s IS NOT NULL) AS total_bytes,
        SUM(a.value_s) FILTER (a.metric = 'memory_available_bytes')
        / SUM(a.observed_s) FILTER (a.metric = 'memory_available_bytes' AND a.value_s IS NOT NULL) AS available_bytes
    FROM run_attempts AS r
    JOIN attempt_node_activity AS a USING (cluster, scheduler, job_id, submitted_at)
    WHERE r.cluster = $cluster AND r.run_id = $run_id AND a.observed_s > 0
)
SELECT total_bytes, total_bytes - available_bytes AS used_bytes FROM means WHERE total_bytes > available_bytes;
