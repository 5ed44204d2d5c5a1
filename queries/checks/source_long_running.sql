-- warn: an attempt has been running for more than 30 days: a lost end message (see sacctmgr show runawayjobs)?
SELECT a.cluster, a.job_id, a.submitted_at, a.started_at, c.until
FROM attempts AS a
JOIN computes AS c USING (cluster)
WHERE a.ended_at IS NULL AND a.started_at < c.until - INTERVAL 30 DAY;
