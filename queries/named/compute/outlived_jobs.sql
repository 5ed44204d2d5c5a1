-- One row is a job of Slurm whose pod lived on after Slurm had ended it: what ended then was an entry in Slurm's books.
SELECT DISTINCT cluster, 'slurm' AS scheduler, job_id, ended_at FROM outlived_jobs WHERE cluster = $cluster;
