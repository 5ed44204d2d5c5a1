-- GPUs that accounting did not record are unknown, not 0. What else was reported of them stands beside; the view
-- `attempts` decides, so the order of loads makes no difference.

ALTER TABLE stored.attempts ALTER COLUMN n_gpus DROP NOT NULL;
ALTER TABLE stored.attempts ADD COLUMN gpus_detail DECIMAL(12,3); -- GPUs held as slurmctld listed them: gres_detail, or GRES=...(IDX:...) of `scontrol show job -d`
ALTER TABLE stored.attempts ADD COLUMN gpus_steps DECIMAL(12,3); -- most GPUs that one of its steps held
ALTER TABLE stored.attempts ADD COLUMN gpus_asked DECIMAL(12,3); -- GPUs requested outside of the TRES: --gpus and --gres of the submit line, tres_per_* of slurmctld, ReqGRES
ALTER TABLE stored.attempts ADD COLUMN exclusive BOOLEAN; -- true where no other job could use its nodes (OverSubscribe, --exclusive); else null

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
