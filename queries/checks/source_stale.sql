-- warn: a source that used to be read again and again no longer is, while others are; see trackside status.
SELECT cluster, source, message FROM source_warnings WHERE kind = 'stale';
