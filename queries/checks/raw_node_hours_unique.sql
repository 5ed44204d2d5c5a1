-- stop: a node has a metric and device of an hour more than once
-- of: FROM node_hours
SELECT cluster, node, metric, device, ts, COUNT(*) AS times
FROM node_hours
GROUP BY ALL
HAVING COUNT(*) > 1;
