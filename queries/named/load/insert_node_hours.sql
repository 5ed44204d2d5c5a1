-- Writes node_hours: adds the rows of the frame `incoming` whose node, metric, device and hour do not exist yet.
INSERT INTO node_hours BY NAME
SELECT i.*
FROM incoming AS i
ANTI JOIN (
    SELECT cluster, node, metric, device, ts FROM node_hours WHERE ts BETWEEN $first AND $last
) AS h USING (cluster, node, metric, device, ts);
