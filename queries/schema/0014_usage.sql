-- What accounting itself records of the use of what jobs held: Slurm's records of each step, and the summaries of jobstats.

-- One row is what Slurm recorded of the use of a step of a job; of the job as a whole where step is empty. Values that were not measured are null, never 0.
CREATE TABLE step_usage (
    cluster             VARCHAR NOT NULL,      -- cluster
    scheduler           VARCHAR NOT NULL,      -- slurm
    job_id              VARCHAR NOT NULL,      -- the scheduler's raw id of its job
    step                VARCHAR NOT NULL,      -- batch, extern, interactive, 0, 1, ...; empty: the job's own row
    started_at          TIMESTAMPTZ NOT NULL,  -- Start: tells which attempt of the job it belongs to
    db_index            BIGINT,                -- slurmdbd's own key of the row of its attempt
    ended_at            TIMESTAMPTZ,           -- End; null while it runs
    elapsed_s           DOUBLE,                -- ElapsedRaw: seconds that it ran
    n_nodes             BIGINT,                -- NNodes
    n_tasks             BIGINT,                -- NTasks; null of a job
    cpu_s               DOUBLE,                -- TotalCPU: seconds of CPU time of all its processes; of a job the sum over its steps
    max_rss_bytes       BIGINT,                -- MaxRSS: most memory of one task in any sample
    max_rss_node        VARCHAR,               -- MaxRSSNode: node of that task
    max_rss_task        BIGINT,                -- MaxRSSTask: number of that task
    tasks_rss_bytes     BIGINT,                -- mem of TRESUsageInTot: the highest samples of its tasks added up
    gpu_util_max        DOUBLE,                -- gres/gpuutil of TRESUsageInMax: highest sample of one task, in percent of a GPU, added up over the GPUs of the task
    gpu_util_total      DOUBLE,                -- gres/gpuutil of TRESUsageInTot: one sample of each task added up. Not a mean over time
    gpu_mem_max_bytes   BIGINT,                -- gres/gpumem of TRESUsageInMax: most GPU memory of one task in any sample
    gpu_mem_total_bytes BIGINT,                -- gres/gpumem of TRESUsageInTot: one sample of each task added up
    energy_j            DOUBLE                 -- ConsumedEnergyRaw: joules of its nodes while it ran, whoever else was on them
);

-- One row is what a summary of jobstats (JS1: in the AdminComment of a job) records of one node of the job. The summary is written out once, whichever attempts carry it.
CREATE TABLE job_summaries (
    digest              VARCHAR NOT NULL,      -- MD5 of the AdminComment as stored in attempts
    node                VARCHAR NOT NULL,      -- node
    run_s               DOUBLE,                -- total_time of the job: seconds that it ran when it was summarised
    job_gpus            BIGINT,                -- gpus of the job
    n_cpus              DOUBLE,                -- cpus: CPUs held on the node
    cpu_s               DOUBLE,                -- total_time: seconds of CPU time used on the node
    memory_bytes        DOUBLE,                -- total_memory: memory held on the node
    used_memory_bytes   DOUBLE,                -- used_memory: most memory in use on the node
    n_gpus              BIGINT,                -- GPUs of the node with a mean utilisation; 0 where it has none
    gpu_util_sum        DOUBLE,                -- gpu_utilization: mean utilisation over the job (a ratio), added up over these GPUs
    n_unused_gpus       BIGINT,                -- GPUs among them whose mean utilisation is 0
    n_memory_gpus       BIGINT,                -- GPUs with memory in use and in all
    gpu_used_bytes      DOUBLE,                -- gpu_used_memory: the most in use on each of these, added up
    gpu_memory_bytes    DOUBLE                 -- gpu_total_memory of these, added up
);
