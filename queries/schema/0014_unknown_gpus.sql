-- GPUs that accounting did not record are unknown, not 0. What else was reported of them stands beside; the view
-- `attempts` decides, so the order of loads makes no difference.

ALTER TABLE stored.attempts ALTER COLUMN n_gpus DROP NOT NULL;
ALTER TABLE stored.attempts ADD COLUMN gpus_steps DECIMAL(12,3); -- most GPUs that one of its steps held
ALTER TABLE stored.attempts ADD COLUMN gpus_asked DECIMAL(12,3); -- GPUs requested outside of the TRES: --gpus and --gres of the submit line, or ReqGRES
ALTER TABLE stored.attempts ADD COLUMN exclusive BOOLEAN; -- true where no other job could use its nodes (--exclusive of the submit line); else null

-- One row is a job as slurmctld showed it while it knew it, with what that tells of its GPUs: for attempts of which accounting records none.
CREATE TABLE job_gpus (
    cluster             VARCHAR NOT NULL,      -- cluster
    job_id              VARCHAR NOT NULL,      -- raw id (JobId)
    submitted_at        TIMESTAMPTZ NOT NULL,  -- SubmitTime, to the second
    gpus_held           DECIMAL(12,3),         -- GPUs that it held on its nodes: gres_detail, or GRES of `scontrol show job -d`
    gpus_asked          DECIMAL(12,3),         -- GPUs that it requested: tres_per_job, tres_per_node, ...
    exclusive           BOOLEAN                -- true where no other job could use its nodes (OverSubscribe, shared); else null
);

ALTER TABLE runs ALTER COLUMN n_gpus DROP NOT NULL;
ALTER TABLE interruptions ALTER COLUMN n_gpus DROP NOT NULL;
ALTER TABLE restarts ALTER COLUMN n_gpus DROP NOT NULL;
ALTER TABLE checkpoint_advice ALTER COLUMN n_gpus DROP NOT NULL;

-- Rows stored before: 0 GPUs only because no TRES named any.
UPDATE stored.attempts
SET n_gpus = NULL
WHERE n_gpus = 0 AND node_list IS NOT NULL AND scheduler = 'slurm'
  AND NOT COALESCE(contains(alloc_tres, 'gres/gpu'), FALSE);
UPDATE stored.attempts
SET req_gpus = NULL
WHERE req_gpus = 0 AND scheduler = 'slurm' AND NOT COALESCE(contains(req_tres, 'gres/gpu'), FALSE);
