-- One row is a health event of a cluster that may explain an attempt's end, as the diagnosis of interruptions reads it: critical ones, warnings, and XIDs of the user's program. One that was already there when its GPU was first seen has an unknown time.
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
