-- One row is an attempt of a run of a cluster that one of some attempts belongs to (the frame `touched_attempts`), or one that was submitted on one of some days (the frame `touched_days`: their numbers since 1970); as runs were found last.
WITH touched AS (
    SELECT run_id FROM run_attempts SEMI JOIN touched_attempts USING (cluster, scheduler, job_id, submitted_at)
    UNION
    SELECT run_id
    FROM run_attempts
    WHERE cluster = $cluster AND CAST(floor(epoch_us(submitted_at) / 86400000000) AS BIGINT) IN (SELECT day FROM touched_days)
)
SELECT r.cluster, r.scheduler, r.job_id, r.submitted_at, r.run_id, r.attempt_no, r.joined_by
FROM run_attempts AS r
SEMI JOIN touched USING (run_id)
WHERE r.cluster = $cluster;
