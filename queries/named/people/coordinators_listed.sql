-- One row is a user in a list of coordinators: of which account (empty: of none), and when a list had it last.
SELECT cluster, "user", account, last_seen_at
FROM coordinators
WHERE cluster = $cluster
ORDER BY "user", account;
