-- Writes users: the first submission of each user in an account, of all attempts.
WITH firsts AS (
    SELECT u.cluster, u."user", u.account, MIN(a.submitted_at) AS first_job_at
    FROM users AS u
    LEFT JOIN stored.attempts AS a USING (cluster, "user", account)
    GROUP BY ALL
)
UPDATE users AS u
SET first_job_at = f.first_job_at
FROM firsts AS f
WHERE
    u.cluster = f.cluster AND u."user" = f."user" AND u.account = f.account
    AND u.first_job_at IS DISTINCT FROM f.first_job_at;
