-- What each load requested, in columns, and its warnings as records. Loads of earlier versions are filled from `origin`.

CREATE TEMP TABLE earlier_loads AS FROM loads;
DROP TABLE loads;

-- One row is one load of one source: what was requested and how, what came of every row, which time it covers.
CREATE TABLE loads (
    cluster             VARCHAR NOT NULL,      -- cluster the rows belong to
    source              VARCHAR NOT NULL,      -- slurm.accounting, slurm.events, slurm.nodes, slurm.config, ...
    origin              VARCHAR NOT NULL,      -- file name, the command that was run, or the server's address
    transport           VARCHAR NOT NULL,      -- file, stdin; command, rest (Slurm); remote_read, export (of VictoriaMetrics), json (Prometheus); http: one of these three, which is not known of earlier versions' loads
    request             VARCHAR,               -- what was requested of a running Slurm, whatever the time: sacct, sacctmgr show event, slurmrestd jobs; null for all else
    requested_from      TIMESTAMPTZ,           -- the time from here ...
    requested_until     TIMESTAMPTZ,           -- ... to here was requested; null where no time was
    partial             BOOLEAN NOT NULL,      -- others' jobs were hidden from us: the load covers no time, whatever was requested
    digest              VARCHAR,               -- sha256 of the bytes read
    loaded_at           TIMESTAMPTZ NOT NULL,  -- when (the loader's clock)
    covers_from         TIMESTAMPTZ,           -- the load covers the time from here ...
    covers_until        TIMESTAMPTZ,           -- ... to here (the source's clock)
    rows_read           BIGINT NOT NULL,       -- input rows; equals loaded + duplicate + skipped + rejected
    rows_loaded         BIGINT NOT NULL,       -- rows taken in (new or the same again)
    rows_duplicate      BIGINT NOT NULL,       -- rows that repeat an attempt within this input
    rows_skipped        BIGINT NOT NULL,       -- rows that are not of this kind by design (job steps, headers)
    rows_rejected       BIGINT NOT NULL,       -- rows refused; each is in rejects with its reason
    rows_new            BIGINT,                -- how many of the rows taken in made the source's table grow; null where that is not counted
    columns             VARCHAR[],             -- columns the input carried
    warnings            STRUCT(code VARCHAR, count BIGINT, detail VARCHAR)[] -- what a person should know about this load: which warning, how many it concerns, and its particulars
);

INSERT INTO loads BY NAME
WITH parsed AS (
    SELECT
        *,
        -- A live answer that shows one user's jobs only was marked so.
        regexp_replace(origin, '^others'' jobs hidden: ', '') AS command,
        starts_with(origin, 'others'' jobs hidden: ') AS partial,
        regexp_extract(
            command, '^sacct .*-S (\d{4}-\d\d-\d\dT[\d:]{8}) -E (\d{4}-\d\d-\d\dT[\d:]{8})( |$)', ['low', 'high']
        ) AS texts,
        regexp_extract(
            command, '^sacctmgr .*Start=(\d{4}-\d\d-\d\dT[\d:]{8}) End=(\d{4}-\d\d-\d\dT[\d:]{8})( |$)', ['low', 'high']
        ) AS event_texts,
        regexp_extract(
            command, '^slurmrestd .*[?&]start_time=(?:uts)?(\d{1,10})&end_time=(?:uts)?(\d{1,10})(&|$)', ['low', 'high']
        ) AS epochs
    FROM earlier_loads
),
requested AS (
    SELECT
        * EXCLUDE (command, texts, event_texts, epochs, warnings),
        CASE
            WHEN regexp_matches(command, '^(sacct|sacctmgr|scontrol|squeue|sdiag)\s') THEN 'command'
            WHEN regexp_matches(command, '^slurmrestd\s') THEN 'rest'
            WHEN regexp_matches(command, '^https?://') THEN 'http'
            WHEN command = '-' THEN 'stdin'
            ELSE 'file'
        END AS transport,
        COALESCE(
            CASE WHEN source = 'slurm.runaway' THEN 'squeue and sacct: runaway jobs' END,
            NULLIF(regexp_extract(command, '^(sacct|sdiag)\b', 1), ''),
            'sacctmgr show ' || NULLIF(regexp_extract(command, '^sacctmgr\s(?:.*\s)?show\s+(\w+)', 1), ''),
            'scontrol show ' || NULLIF(regexp_extract(command, '^scontrol\s(?:.*\s)?show\s+(\w+)', 1), ''),
            'slurmrestd ' || NULLIF(regexp_extract(command, '^slurmrestd \S*/(nodes|reservations|clusters|jobs|job)\b', 1), '')
        ) AS request,
        COALESCE(
            try_strptime(COALESCE(NULLIF(texts.low, ''), event_texts.low), '%Y-%m-%dT%H:%M:%S') AT TIME ZONE 'UTC',
            to_timestamp(TRY_CAST(epochs.low AS BIGINT))
        ) AS requested_from,
        COALESCE(
            try_strptime(COALESCE(NULLIF(texts.high, ''), event_texts.high), '%Y-%m-%dT%H:%M:%S') AT TIME ZONE 'UTC',
            to_timestamp(TRY_CAST(epochs.high AS BIGINT))
        ) AS requested_until,
        list_transform(
            warnings, lambda text: {'code': 'text', 'count': CAST(NULL AS BIGINT), 'detail': text}
        ) AS warnings
    FROM parsed
)
SELECT
    * EXCLUDE (request, requested_from, requested_until),
    CASE WHEN transport IN ('command', 'rest') THEN request END AS request,
    -- A time without its other end is none.
    CASE WHEN requested_from < requested_until THEN requested_from END AS requested_from,
    CASE WHEN requested_from < requested_until THEN requested_until END AS requested_until
FROM requested;

DROP TABLE IF EXISTS temp.earlier_loads;
