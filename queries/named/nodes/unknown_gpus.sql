-- One row is how many attempts of a cluster that held nodes ran in a window, by the source of their GPUs (attempts.gpus_from), without those that accounting records.
SELECT a.gpus_from, COUNT(*) AS n, ANY_VALUE(s.n) AS n_ran
FROM attempts AS a
CROSS JOIN (
    SELECT COUNT(*) AS n
    FROM stored.attempts
    WHERE cluster = $cluster AND n_nodes > 0 AND started_at < $until AND COALESCE(ended_at, $until) > $since
) AS s
WHERE a.cluster = $cluster AND a.n_nodes > 0 AND a.gpus_from <> 'accounting'
  AND a.started_at < $until AND COALESCE(a.ended_at, $until) > $since
GROUP BY a.gpus_from
ORDER BY a.gpus_from;
