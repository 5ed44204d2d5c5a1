-- warn: time between loads that no load covers; trackside status lists it with the command that reads it.
SELECT g.cluster, g.source, g.started_at, g.ended_at
FROM load_gaps AS g
LEFT JOIN computes AS c USING (cluster)
WHERE g.gap_s > 3600 * COALESCE((c.constants ->> 'coverage_gap_hours')::DOUBLE, 1.0);
