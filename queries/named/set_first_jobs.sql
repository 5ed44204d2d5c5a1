-- Writes users: the first submission of each user in an account, where the frame `firsts` has an earlier one.
UPDATE users AS u
SET first_job_at = LEAST(u.first_job_at, f.first_job_at)
FROM firsts AS f
WHERE u.cluster = f.cluster AND u."user" = f."user" AND u.account = f.account;
