-- One row is what was written at an attempt of a cluster whose labels may name its run: the environment variable, the key in a comment, the wckey.
SELECT
    cluster,
    scheduler,
    job_id,
    submitted_at,
    array_job_id,
    work_dir,
    comment,
    admin_comment,
    wckey,
    submit_line,
    env_run
FROM stored.attempts
WHERE cluster = $cluster
  AND (
      ($env <> '' AND (env_run IS NOT NULL OR contains(submit_line, $env)))
      -- JSON may have a key in other letters.
      OR ($comment_key <> '' AND (
          contains(comment, $comment_key)
          OR contains(admin_comment, $comment_key)
          OR contains(comment, '\u')
          OR contains(admin_comment, '\u')
      ))
      OR ($by_wckey AND wckey IS NOT NULL)
  )
ORDER BY job_id, submitted_at;
