-- One row is the time that rank times and straggler reports of a cluster cover; nulls where there are none.
SELECT min(since) AS since, max(until) AS until
FROM (
    SELECT min(started_at) AS since, max(ended_at) AS until FROM rank_steps WHERE cluster = $cluster
    UNION ALL
    SELECT min(reported_at) AS since, max(reported_at) + INTERVAL 1 SECOND AS until FROM rank_reports WHERE cluster = $cluster
);
