-- One row is what was written at an attempt of a cluster that may name its run: at every one, or at those whose labels may do so by the environment variable, the key in a comment, or the wckey. Most jobs have none of these.
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
      $every
      OR ($env <> '' AND (env_run IS NOT NULL OR contains(submit_line, $env)))
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
