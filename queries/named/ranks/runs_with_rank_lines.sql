-- One row is a run, of some, of which ranks recorded training steps that began in a time.
SELECT DISTINCT run_id
FROM rank_steps
WHERE cluster = $cluster AND started_at >= $since AND started_at < $until
    AND run_id IN (SELECT unnest($runs::VARCHAR[]))
ORDER BY run_id;
