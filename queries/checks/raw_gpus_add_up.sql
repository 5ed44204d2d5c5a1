-- stop: the GPUs of an attempt's nodes do not add up to the attempt's
SELECT a.cluster, a.scheduler, a.job_id, a.submitted_at, a.n_gpus, SUM(n.n_gpus) AS on_nodes
FROM attempts AS a
JOIN attempt_nodes AS n USING (cluster, scheduler, job_id, submitted_at)
GROUP BY ALL
HAVING SUM(n.n_gpus) <> a.n_gpus;
