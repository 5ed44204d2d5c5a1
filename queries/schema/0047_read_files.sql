-- Files that are read again only when something about them is new.

-- One row is a file (or an archive of files) as it was when `serve` or a fleet read it last.
CREATE TABLE read_files (
    source              VARCHAR NOT NULL,      -- as in loads
    origin              VARCHAR NOT NULL,      -- its path
    bytes               BIGINT NOT NULL,       -- its size
    modified_ns         BIGINT NOT NULL,       -- when it was written to last: nanoseconds since 1970
    changed_ns          BIGINT NOT NULL,       -- when it was written to, replaced, or otherwise changed last: nanoseconds since 1970
    reading             VARCHAR NOT NULL,      -- digest of what the reading depends on besides: version of Trackside, formats, time zone, cluster
    refused             JSON                   -- logs in it that could not be used: their names, kinds of error and messages; null if there are none
);
