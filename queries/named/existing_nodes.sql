-- One row is an inventory in the warehouse of a node that is being loaded (the frame `incoming`).
SELECT n.* FROM nodes AS n SEMI JOIN incoming AS i USING (cluster, node);
