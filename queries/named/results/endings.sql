-- One row is how an attempt of a run ended without completing, in the window: what failure rates count. A heterogeneous job's components are one row.
SELECT cluster, scheduler, job_id, submitted_at, ended_at, state, class, cause, incident
FROM run_interruptions
WHERE cluster = $cluster AND ended_at > $since AND ended_at <= $until
ORDER BY ended_at, job_id, submitted_at;
