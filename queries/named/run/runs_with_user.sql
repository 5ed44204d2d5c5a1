-- One row is the id of a run of a user, or of one that has an attempt of that user, whenever it was.
SELECT run_id FROM runs WHERE cluster = $cluster AND "user" = $user
UNION
SELECT r.run_id
FROM run_attempts AS r
SEMI JOIN attempts AS a
    ON a.cluster = r.cluster AND a.scheduler = r.scheduler AND a.job_id = r.job_id AND a.submitted_at = r.submitted_at
    AND a."user" = $user
WHERE r.cluster = $cluster
ORDER BY run_id;
