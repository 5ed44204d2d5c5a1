-- Writes gpu_hours: adds the rows of the frame `incoming` whose GPU, hour and metric do not exist yet.
INSERT INTO gpu_hours BY NAME
SELECT i.*
FROM incoming AS i
ANTI JOIN (
    SELECT cluster, node, gpu, ts, metric FROM gpu_hours WHERE ts BETWEEN $first AND $last
) AS h USING (cluster, node, gpu, ts, metric);
