-- One row is an attempt of a job of the frame `incoming`, and its end; null where accounting has none yet.
SELECT i.job_id, CASE WHEN a.end_guessed IS NOT TRUE THEN a.ended_at END AS ended_at
FROM incoming AS i JOIN stored.attempts AS a USING (cluster, scheduler, job_id);
