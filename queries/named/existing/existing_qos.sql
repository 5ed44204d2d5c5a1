-- One row is a quality of service in the warehouse that is being loaded (the frame `incoming`).
SELECT q.* FROM qos AS q SEMI JOIN incoming AS i USING (cluster, name);
