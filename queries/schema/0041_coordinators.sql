-- People: who may manage an account of Slurm.

-- One row is a user who was listed as coordinator of an account; account empty: a list had the user as coordinator of none.
CREATE TABLE coordinators (
    cluster             VARCHAR NOT NULL,      -- cluster
    "user"              VARCHAR NOT NULL,      -- login name
    account             VARCHAR NOT NULL,      -- account that the user may manage, those below it included
    first_seen_at       TIMESTAMPTZ NOT NULL,  -- first list that has it
    last_seen_at        TIMESTAMPTZ NOT NULL   -- last list that has it
);
