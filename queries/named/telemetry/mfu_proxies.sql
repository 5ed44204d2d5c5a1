-- One row is how well tensor activity can replace logs, of a run or of a GPU model and data type of a cluster, in all of the computed time.
SELECT * FROM mfu_proxies WHERE cluster = $cluster ORDER BY run_id, gpu_model, dtype;
