-- One row is a gap between the loads of a source of a cluster that is longer than gaps that are closed (as in the last computation, else an hour).
SELECT g.*
FROM load_gaps AS g
LEFT JOIN computes AS c USING (cluster)
WHERE g.gap_s > 3600 * COALESCE((c.constants ->> 'coverage_gap_hours')::DOUBLE, 1.0)
ORDER BY g.cluster, g.source, g.started_at;
