-- One row is what the summary of jobstats of an attempt (in its AdminComment) records of a node, with what the attempt held.
SELECT
    a.cluster,
    a.scheduler,
    a.job_id,
    a.submitted_at,
    a.elapsed_s AS held_s,
    CAST(a.n_gpus AS DOUBLE) AS held_gpus,
    s.* EXCLUDE (digest)
FROM stored.attempts AS a
JOIN job_summaries AS s ON s.digest = md5(a.admin_comment)
WHERE a.cluster = $cluster AND starts_with(a.admin_comment, 'JS1:')
ORDER BY a.job_id, a.submitted_at, s.node;
