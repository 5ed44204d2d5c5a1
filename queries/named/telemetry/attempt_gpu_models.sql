-- One row is an attempt of a cluster and the model of its GPUs: as accounting names it, else as its nodes have it.
WITH models AS (
    SELECT node, MAX(gpu_model) AS gpu_model FROM nodes WHERE cluster = $cluster GROUP BY node
)
SELECT n.cluster, n.scheduler, n.job_id, n.submitted_at, MAX(COALESCE(a.gpu_model, m.gpu_model)) AS gpu_model
FROM attempt_nodes AS n
JOIN stored.attempts AS a USING (cluster, scheduler, job_id, submitted_at)
LEFT JOIN models AS m USING (node)
WHERE n.cluster = $cluster AND n.evidence = 'accounting' AND n.n_gpus > 0
GROUP BY n.cluster, n.scheduler, n.job_id, n.submitted_at
ORDER BY n.job_id, n.submitted_at;
