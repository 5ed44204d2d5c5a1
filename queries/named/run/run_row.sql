-- One row is a run of a cluster, whenever it ran.
SELECT * FROM runs WHERE cluster = $cluster AND run_id = $run_id;
