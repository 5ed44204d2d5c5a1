-- One row is a run's id, name or job id that reads much like a text, the most alike first.
WITH every AS (
    SELECT cluster, run_id AS called FROM runs
    UNION
    SELECT cluster, name FROM runs WHERE name IS NOT NULL
    UNION
    SELECT cluster, run_id FROM run_sessions
    UNION
    SELECT cluster, job_id FROM run_attempts
)
SELECT called, MAX(jaro_winkler_similarity(lower(called), lower($text))) AS alike
FROM every
WHERE ($cluster IS NULL OR cluster = $cluster)
GROUP BY called
HAVING alike >= 0.86
ORDER BY alike DESC, called
LIMIT 3;
