-- One row is how many loads of a cluster came after its last computation.
SELECT COUNT(*) AS loads
FROM loads AS l
JOIN computes AS c USING (cluster)
WHERE l.cluster = $cluster AND l.loaded_at > c.computed_at;
