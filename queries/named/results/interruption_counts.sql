-- One row is the number of interruptions of a class and a cause that ended within the window, by day (UTC): one at midnight is of the day before.
SELECT
    CAST(CAST(ended_at - INTERVAL 1 MICROSECOND AS DATE) AS VARCHAR) AS day,
    class,
    cause,
    COUNT(*) AS n
FROM run_interruptions
WHERE cluster = $cluster AND ended_at > $since AND ended_at <= $until
GROUP BY ALL
ORDER BY ALL;
