-- One row is an inventory in the warehouse of a cluster that is being loaded (the frame `incoming`).
SELECT n.* FROM nodes AS n SEMI JOIN incoming AS i USING (cluster);
