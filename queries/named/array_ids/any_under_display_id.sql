-- One row is whether the warehouse has attempts under the displayed id (29_0, 11+1), because the raw one is missing.
SELECT EXISTS (SELECT 1 FROM stored.attempts WHERE scheduler = 'slurm' AND (contains(job_id, '_') OR contains(job_id, '+'))) AS any;
