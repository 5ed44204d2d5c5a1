-- One row is a health event of a cluster that may tell why an attempt ended, as the diagnosis of interruptions reads it: critical ones, warnings, and XIDs of the user's program. One that was there when its GPU was first seen tells nothing of when it happened.
SELECT
    cluster,
    node,
    ts,
    kind,
    kind || ' ' || code || COALESCE(': ' || detail, '') AS detail,
    gpu,
    code,
    class,
    severity,
    evidence
FROM health_events
WHERE cluster = $cluster
  AND (severity IN ('critical', 'warning') OR class IN ('APP', 'CONSEQUENCE'))
  AND NOT starts_with(COALESCE(detail, ''), 'already there when first seen')
ORDER BY node, ts, kind, code, gpu, detail;
