-- One row is a number of the scheduler in the warehouse, of a moment that is being loaded (the frame `incoming`).
SELECT s.* FROM scheduler_stats AS s SEMI JOIN incoming AS i USING (cluster, ts);
