-- One row is the id of a run of a cluster of which a log was read, under its own name or that of one of its jobs.
SELECT run_id FROM run_sessions WHERE cluster = $cluster
UNION
SELECT a.run_id
FROM run_attempts AS a
SEMI JOIN run_sessions AS s ON s.cluster = a.cluster AND s.scheduler = a.scheduler AND s.job_id = a.job_id
WHERE a.cluster = $cluster
ORDER BY run_id;
