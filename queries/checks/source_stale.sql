-- warn: a source that used to be read again and again no longer is, while others are; trackside status says more.
SELECT cluster, source, says FROM source_warnings WHERE kind = 'stale';
