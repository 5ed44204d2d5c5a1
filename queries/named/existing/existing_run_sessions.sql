-- One row is a session in the warehouse whose run is among those being loaded (the frame `incoming`).
SELECT s.* FROM run_sessions AS s SEMI JOIN incoming AS i USING (cluster, run_id);
