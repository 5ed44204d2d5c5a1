-- Which standard windows have stored results, and what these were computed from.

-- One row is a standard window of a cluster whose results are stored. A window whose inputs are the same is not computed again. Computed.
CREATE TABLE result_windows (
    cluster             VARCHAR NOT NULL,      -- cluster
    window_from         TIMESTAMPTZ NOT NULL,  -- from
    window_until        TIMESTAMPTZ NOT NULL,  -- to
    inputs              VARCHAR NOT NULL,      -- digest of everything that the window's results depend on
    computed_at         TIMESTAMPTZ NOT NULL   -- when its results were computed
);
