-- One row is the time of a complete snapshot of a cluster by a source (all nodes, the whole network).
CREATE OR REPLACE VIEW whole_looks AS
-- A text of which rows were refused is no complete snapshot: what it seems to lack may be among those.
SELECT DISTINCT cluster, source, covers_until AS ts
FROM loads
WHERE covers_from = covers_until AND rows_loaded > 0 AND rows_rejected = 0;
