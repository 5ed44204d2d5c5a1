-- One row is a state in the warehouse of a node that is being loaded (the frame `incoming`).
SELECT s.* FROM node_states AS s SEMI JOIN incoming AS i USING (cluster, node);
