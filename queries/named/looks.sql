-- One row is a moment at which all nodes of a cluster that is being loaded (the frame `incoming`) had been read.
-- A text of which rows were refused is no look: what it seems to lack may be among those.
SELECT DISTINCT l.cluster, l.covers_until AS ts
FROM loads AS l SEMI JOIN incoming AS i USING (cluster)
WHERE l.source = $source AND l.covers_from = l.covers_until AND l.rows_loaded > 0
  AND l.rows_rejected = 0;
