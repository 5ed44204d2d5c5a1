-- warn: jobs without an end that accounting no longer has (purged, or its database was reset): when they ended is unknown. Load an old dump of that time if there is one.
-- of: FROM rechecks
SELECT a.cluster, a.job_id, a.submitted_at, a.state, r.checked_at
FROM attempts AS a
JOIN rechecks AS r USING (cluster, scheduler, job_id, submitted_at)
WHERE (a.ended_at IS NULL OR a.end_guessed) AND NOT r.known;
