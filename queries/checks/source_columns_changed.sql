-- warn: a source has other columns than it had within the last week; trackside status says more.
SELECT cluster, source, says FROM source_warnings WHERE kind = 'columns';
