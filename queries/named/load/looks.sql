-- One row is a moment at which a source had told of everything that a cluster has which is being loaded (the frame
-- `incoming`).
SELECT l.cluster, l.ts FROM whole_looks AS l SEMI JOIN incoming AS i USING (cluster) WHERE l.source = $source;
