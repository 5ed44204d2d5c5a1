-- Determined.AI: allocations as its master exports them. Attempts follow from them.

-- One row is an allocation: slots that the master gave to a task, as last exported.
CREATE TABLE determined_allocations (
    cluster             VARCHAR NOT NULL,      -- cluster
    allocation_id       VARCHAR NOT NULL,      -- its id: TASK.NUMBER
    task_type           VARCHAR,               -- TRIAL, NOTEBOOK, COMMAND, SHELL, TENSORBOARD, ...
    "user"              VARCHAR,               -- who it belongs to
    workspace           VARCHAR,               -- workspace
    experiment_id       VARCHAR,               -- experiment that a trial is part of
    resource_pool       VARCHAR,               -- resource pool, where the export has it
    slots               BIGINT NOT NULL,       -- slots: GPUs, in a pool of CPUs CPUs
    started_at          TIMESTAMPTZ NOT NULL,  -- when it got them
    ended_at            TIMESTAMPTZ            -- when it gave them back; null while it holds them
);

-- Determined exports slots and no nodes.
ALTER TABLE stored.attempts ALTER COLUMN n_nodes DROP NOT NULL;
