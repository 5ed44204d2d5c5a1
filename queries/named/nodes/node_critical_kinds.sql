-- One row is a critical kind of health event that a node of a cluster reported within a window. What the control plane
-- reports of a node is left out: that it left service is a signal of its own.
SELECT DISTINCT cluster, node, kind, code
FROM health_events
WHERE cluster = $cluster AND ts >= $since AND ts < $until AND severity = 'critical' AND kind <> 'condition'
ORDER BY node, kind, code;
