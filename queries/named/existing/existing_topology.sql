-- One row is a node's place in the network, in the warehouse, of a cluster that is being loaded (the frame `incoming`).
SELECT t.* FROM node_topology AS t SEMI JOIN incoming AS i USING (cluster);
