-- One row is an event in the warehouse whose run is among those being loaded (the frame `incoming`).
SELECT e.* FROM run_events AS e SEMI JOIN incoming AS i USING (cluster, run_id);
