-- warn: a source has other columns than it had within the last week; see trackside status.
SELECT cluster, source, message FROM source_warnings WHERE kind = 'columns';
