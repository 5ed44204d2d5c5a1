-- One row is a reservation in the warehouse of a cluster that is being loaded (the frame `incoming`).
SELECT r.* FROM reservations AS r SEMI JOIN incoming AS i USING (cluster);
