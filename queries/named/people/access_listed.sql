-- One row is a user in an account as the tables of people have it: when the association was made, the administrator level, when
-- a list of associations had it first and last, and when the latest list of the cluster was read.
WITH listed AS (
    SELECT cluster, "user", account, MIN(first_seen_at) AS first_seen_at, MAX(last_seen_at) AS last_seen_at
    FROM associations
    WHERE cluster = $cluster AND "user" <> ''
    GROUP BY ALL
)
SELECT
    cluster,
    "user",
    account,
    u.admin_level,
    u.provisioned_at,
    l.first_seen_at,
    l.last_seen_at,
    (SELECT MAX(last_seen_at) FROM associations WHERE cluster = $cluster) AS listed_at
FROM (FROM users WHERE cluster = $cluster) AS u
FULL JOIN listed AS l USING (cluster, "user", account)
ORDER BY "user", account;
