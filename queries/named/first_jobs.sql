-- One row is a user in an account with the first submission seen, of the users being loaded (the frame `incoming`).
SELECT a.cluster, a."user", a.account, MIN(a.submitted_at) AS first_job_at
FROM attempts AS a
SEMI JOIN incoming AS i USING (cluster, "user", account)
GROUP BY ALL;
