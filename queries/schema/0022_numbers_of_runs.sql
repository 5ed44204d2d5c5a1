-- The numbers of a run without what moves with the end of the data: a run that ended keeps its row. What is the same for all runs of a cluster is in a table of its own; the view run_metrics puts both together.

CREATE TEMP TABLE earlier_results AS FROM run_results;
DROP TABLE run_results;

-- One row is the numbers of a run in the time that was computed; run_metrics has a row for each of them. A row is written again only if something that it was computed from changed. Computed.
CREATE TABLE run_results (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    inputs              UBIGINT,               -- digest of everything that the numbers depend on but the run's log; null: of an earlier version
    n_attempts          BIGINT,                -- attempts; null: the run neither held GPUs nor waited for them
    n_gpus              DECIMAL(12,3),         -- GPUs of the run; null: unknown
    allocated_gpu_s     DOUBLE,                -- GPU-seconds scheduled
    wall_gpu_s          DOUBLE,                -- GPU-seconds queued and scheduled
    after_start_gpu_s   DOUBLE,                -- ... without the first wait
    productive_gpu_s    DOUBLE,                -- GPU-seconds that trained
    productive_sure_gpu_s DOUBLE,              -- ... of these, what nothing can take back
    saved_gpu_s         DOUBLE,                -- GPU-seconds that trained or wrote checkpoints
    checkpoint_gpu_s    DOUBLE,                -- GPU-seconds that wrote checkpoints
    startup_gpu_s       DOUBLE,                -- GPU-seconds of startups that were observed
    unseen_gpu_s        DOUBLE,                -- GPU-seconds of which only the allocation is known
    beside_idle_gpu_s   DOUBLE,                -- GPU-seconds active beside an idle GPU of the attempt
    queued_initial_gpu_s DOUBLE,               -- GPU-seconds waited for before the first start
    queued_requeue_gpu_s DOUBLE,               -- ... and between attempts
    imputed_gpu_s       DOUBLE,                -- GPU-seconds that trained by assumption: hourly checkpoints, 5 minutes to restart
    by_log_gpu_s        DOUBLE,                -- allocated GPU-seconds that are known by logs
    by_telemetry_gpu_s  DOUBLE,                -- ... by telemetry
    by_accounting_gpu_s DOUBLE,                -- ... by accounting
    by_assumed_gpu_s    DOUBLE,                -- ... by assumption
    ettr                DOUBLE,                -- ETTR; null: unknown
    ettr_low            DOUBLE,                -- its bounds
    ettr_high           DOUBLE,                -- its bounds
    ettr_without_initial_queue DOUBLE,         -- ETTR without the first wait
    ettr_without_initial_queue_low DOUBLE,     -- its bounds
    ettr_without_initial_queue_high DOUBLE,    -- its bounds
    ettr_with_checkpoint_writes DOUBLE,        -- ETTR that counts checkpoint writes as productive
    ettr_with_checkpoint_writes_low DOUBLE,    -- its bounds
    ettr_with_checkpoint_writes_high DOUBLE,   -- its bounds
    ettr_imputed        DOUBLE,                -- ETTR as imputed
    n_starts            BIGINT,                -- starts of attempts
    started_gpus        DOUBLE,                -- ... and the sum of their GPUs; null: unknown
    logged_starts_gpus  DOUBLE,                -- the same of starts whose startup a log records; null: no log of the run
    interval_s          DOUBLE,                -- seconds from one checkpoint to the next by its log
    write_s             DOUBLE,                -- seconds that a checkpoint blocked training by its log
    goodput_job         DOUBLE,                -- job goodput by the run's log
    job_productive_s    DOUBLE,                -- seconds of the run that its log has as productive
    job_s               DOUBLE,                -- ... and all of them
    job_logged          BOOLEAN NOT NULL,      -- there is an account by the run's log
    job_note            VARCHAR                -- caveats of job goodput
);

INSERT INTO run_results BY NAME
SELECT * EXCLUDE (window_from, window_until, ettr_expected, expected_gpu_s, expected_by, expected_evidence)
FROM earlier_results;

DROP TABLE IF EXISTS temp.earlier_results;

-- One row is what the expected ETTR of all runs of a cluster depends on, in the time that was computed. Computed.
CREATE TABLE expected_inputs (
    cluster             VARCHAR NOT NULL,      -- cluster
    gpu_days_per_failure DOUBLE,               -- GPU-days per failure of the infrastructure; infinite: nothing failed; null: nothing ran
    restart_s           DOUBLE NOT NULL,       -- seconds that a startup takes, of runs whose own is not logged
    interval_s          DOUBLE NOT NULL,       -- seconds from one checkpoint to the next, of runs whose log has none
    write_s             DOUBLE NOT NULL,       -- seconds that a checkpoint blocks training, of those runs
    evidence            VARCHAR NOT NULL       -- weakest kind of evidence of these: accounting or assumed
);
