-- One row is the time that training steps, and dumps of the NCCL flight recorder, of a cluster cover; nulls where there are none.
SELECT min(since) AS since, max(until) AS until
FROM (
    SELECT min(ts) AS since, max(ts) AS until FROM steps WHERE cluster = $cluster
    UNION ALL
    SELECT min(reported_at) AS since, max(reported_at) + INTERVAL 1 SECOND AS until
    FROM rank_reports
    WHERE cluster = $cluster AND program = 'nccl-flight-recorder'
);
