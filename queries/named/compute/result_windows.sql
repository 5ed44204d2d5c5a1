-- One row is a standard window of a cluster whose results are stored, and what these were computed from.
SELECT window_from, window_until, inputs, computed_at
FROM result_windows
WHERE cluster = $cluster
ORDER BY window_from, window_until;
