-- One row is something about a source of a cluster that needs attention, in words.
SELECT * FROM source_warnings ORDER BY cluster, source, kind, message;
