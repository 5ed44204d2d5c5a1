-- warn: jobs were restarted more often than there are rows. Of Slurm: load accounting with duplicates (sacct -D), and from before their first start. Of pods: a pod shows its latest restart only, so watch pods, or list them often
-- of: FROM stored.attempts WHERE restarts > 0
WITH restarted AS (
    SELECT
        cluster,
        scheduler,
        job_id,
        submitted_at,
        restarts,
        COUNT(*) FILTER (state <> 'RESIZING') OVER (
            PARTITION BY cluster, scheduler, job_id, first_submitted_at ORDER BY submitted_at
        ) - 1 AS earlier_rows
    FROM attempts
    SEMI JOIN (SELECT cluster, scheduler, job_id FROM stored.attempts WHERE restarts > 0) AS again USING (cluster, scheduler, job_id)
)
SELECT cluster, job_id, MAX(restarts) AS restarts, arg_max(earlier_rows, restarts) AS earlier_rows
FROM restarted
WHERE restarts > earlier_rows
GROUP BY cluster, job_id;
