-- One row is a run that a job id (raw, or as people see it) belongs to or that shares a name, the newest first.
SELECT r.run_id, MAX(a.submitted_at) AS submitted_at
FROM run_attempts AS r
JOIN attempts AS a USING (cluster, scheduler, job_id, submitted_at)
WHERE r.cluster = $cluster
  AND (
      $job_id = r.job_id OR $job_id = a.display_id OR $job_id = a.array_job_id
      -- A name of several runs is the part before `@` in the ids of its runs.
      OR starts_with(r.run_id, $job_id || '@')
  )
GROUP BY r.run_id
ORDER BY submitted_at DESC, r.run_id;
