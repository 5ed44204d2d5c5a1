-- One row is an incident: health events of a node that belong together.
SELECT
    cluster,
    node,
    started_at,
    ended_at,
    severity,
    kinds,
    COALESCE(gpus, '') AS gpus,
    COALESCE(action, '') AS action,
    CAST(n_events AS DOUBLE) AS events,
    CAST(n_attempts AS DOUBLE) AS attempts
FROM health_incidents
ORDER BY ALL;
