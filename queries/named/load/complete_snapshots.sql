-- One row is the time of a complete snapshot by a source of a cluster that is being loaded (the frame
-- `incoming`).
SELECT l.cluster, l.ts FROM whole_looks AS l SEMI JOIN incoming AS i USING (cluster) WHERE l.source = $source;
