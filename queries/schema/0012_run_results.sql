-- The numbers of a run side by side, instead of one row for each number of each run: the view run_metrics has those rows.

CREATE TEMP TABLE earlier_metrics AS FROM run_metrics;
DROP TABLE run_metrics;

-- One row is the numbers of a run in the time that was computed; run_metrics has a row for each of them. Computed.
CREATE TABLE run_results (
    cluster             VARCHAR NOT NULL,      -- cluster
    run_id              VARCHAR NOT NULL,      -- run
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    n_attempts          BIGINT,                -- attempts; null: the run neither held GPUs nor waited for them
    allocated_gpu_s     DOUBLE,                -- GPU-seconds scheduled; null for those that an earlier version stored
    wall_gpu_s          DOUBLE,                -- GPU-seconds queued and scheduled
    after_start_gpu_s   DOUBLE,                -- ... without the first wait
    productive_gpu_s    DOUBLE,                -- GPU-seconds that trained
    saved_gpu_s         DOUBLE,                -- ... or wrote checkpoints
    imputed_gpu_s       DOUBLE,                -- GPU-seconds that trained by assumption: hourly checkpoints, 5 minutes to restart
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
    ettr_expected       DOUBLE,                -- ETTR to be expected at the cluster's failure rate
    expected_gpu_s      DOUBLE,                -- GPU-seconds that were to be expected to train
    expected_by         VARCHAR,               -- form of the expected ETTR: exact, finite or with queue; null: none was computed
    expected_evidence   VARCHAR,               -- weakest kind of evidence of its inputs
    goodput_job         DOUBLE,                -- job goodput by the run's log
    job_productive_s    DOUBLE,                -- seconds of the run that its log has as productive
    job_s               DOUBLE,                -- ... and all of them
    job_logged          BOOLEAN NOT NULL,      -- there is an account by the run's log
    job_note            VARCHAR                -- caveats of job goodput
);

INSERT INTO run_results BY NAME
SELECT
    cluster,
    run_id,
    window_from,
    window_until,
    MAX(n) FILTER (metric = 'ettr') AS n_attempts,
    MAX(denominator) FILTER (metric = 'ettr') AS wall_gpu_s,
    MAX(denominator) FILTER (metric = 'ettr_without_initial_queue') AS after_start_gpu_s,
    MAX(numerator) FILTER (metric = 'ettr') AS productive_gpu_s,
    MAX(numerator) FILTER (metric = 'ettr_with_checkpoint_writes') AS saved_gpu_s,
    MAX(numerator) FILTER (metric = 'ettr_imputed') AS imputed_gpu_s,
    MAX(value) FILTER (metric = 'ettr') AS ettr,
    MAX(bound_low) FILTER (metric = 'ettr') AS ettr_low,
    MAX(bound_high) FILTER (metric = 'ettr') AS ettr_high,
    MAX(value) FILTER (metric = 'ettr_without_initial_queue') AS ettr_without_initial_queue,
    MAX(bound_low) FILTER (metric = 'ettr_without_initial_queue') AS ettr_without_initial_queue_low,
    MAX(bound_high) FILTER (metric = 'ettr_without_initial_queue') AS ettr_without_initial_queue_high,
    MAX(value) FILTER (metric = 'ettr_with_checkpoint_writes') AS ettr_with_checkpoint_writes,
    MAX(bound_low) FILTER (metric = 'ettr_with_checkpoint_writes') AS ettr_with_checkpoint_writes_low,
    MAX(bound_high) FILTER (metric = 'ettr_with_checkpoint_writes') AS ettr_with_checkpoint_writes_high,
    MAX(value) FILTER (metric = 'ettr_imputed') AS ettr_imputed,
    MAX(value) FILTER (metric = 'ettr_expected') AS ettr_expected,
    MAX(numerator) FILTER (metric = 'ettr_expected') AS expected_gpu_s,
    MAX(regexp_replace(note, ' form$', '')) FILTER (metric = 'ettr_expected') AS expected_by,
    MAX(evidence) FILTER (metric = 'ettr_expected') AS expected_evidence,
    MAX(value) FILTER (metric = 'goodput_job') AS goodput_job,
    MAX(numerator) FILTER (metric = 'goodput_job') AS job_productive_s,
    MAX(denominator) FILTER (metric = 'goodput_job') AS job_s,
    BOOL_OR(metric = 'goodput_job') AS job_logged,
    MAX(note) FILTER (metric = 'goodput_job') AS job_note
FROM earlier_metrics
GROUP BY ALL;

DROP TABLE IF EXISTS temp.earlier_metrics;
