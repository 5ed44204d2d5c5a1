-- One row is the run whose log ended last before another one's began, is called alike but for its numbers, and came at
-- least to the step before that one's first: one log of a training that was started again, or another training.
WITH ended AS (
    SELECT run_id, MAX(ended_at) AS ended_at
    FROM run_sessions
    WHERE cluster = $cluster AND run_id <> $run_id AND regexp_replace(run_id, $numbers, '#', 'g') = $alike
    GROUP BY run_id
    HAVING MAX(ended_at) <= $begin
)
SELECT e.run_id, MAX(s.step) AS last_step
FROM ended AS e
JOIN steps AS s ON s.cluster = $cluster AND s.run_id = e.run_id
GROUP BY e.run_id, e.ended_at
HAVING MAX(s.step) >= $first_step - 1
ORDER BY e.ended_at DESC, e.run_id
LIMIT 1;
