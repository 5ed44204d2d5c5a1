-- Kubernetes: Jobs whose pods work by themselves, so that one of them that fails stops no other.

ALTER TABLE workloads ADD COLUMN is_work_queue BOOLEAN; -- a Job whose pods never run all at once (parallelism below completions), or that has no completions; null: loaded by an earlier version
