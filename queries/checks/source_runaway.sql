-- warn: accounting never closed a job that Slurm no longer had (sacctmgr show runawayjobs): its end is the latest possible one, its time is assumed
-- of: FROM runaway_jobs
SELECT cluster, job_id, submitted_at, ended_at, because FROM runaway_attempts;
