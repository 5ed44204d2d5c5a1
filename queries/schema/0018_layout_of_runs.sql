-- How a run's model is spread over its GPUs, what other systems call its processes, and the speed that its log prints.

ALTER TABLE run_sessions ADD COLUMN tensor_parallel BIGINT; -- GPUs that share a layer
ALTER TABLE run_sessions ADD COLUMN pipeline_parallel BIGINT; -- pipeline stages
ALTER TABLE run_sessions ADD COLUMN data_parallel BIGINT; -- copies of the model
ALTER TABLE run_sessions ADD COLUMN context_parallel BIGINT; -- GPUs that share a sequence
ALTER TABLE run_sessions ADD COLUMN expert_parallel BIGINT; -- GPUs that share the experts of a layer
ALTER TABLE run_sessions ADD COLUMN wandb_run_id VARCHAR; -- id of the W&B run
ALTER TABLE run_sessions ADD COLUMN pod VARCHAR; -- Kubernetes pod
ALTER TABLE run_sessions ADD COLUMN pod_namespace VARCHAR; -- its namespace
ALTER TABLE run_sessions ADD COLUMN pod_uid VARCHAR; -- its uid
ALTER TABLE run_sessions ADD COLUMN printed_tflops DOUBLE; -- TFLOP/s per GPU that the log itself prints, mean over the time of its steps; counted by the framework's own convention
ALTER TABLE run_sessions ADD COLUMN printed_mfu DOUBLE; -- MFU that the log itself prints, 0 to 1, likewise
ALTER TABLE run_sessions ADD COLUMN printed_steps BIGINT; -- steps that these are means of
