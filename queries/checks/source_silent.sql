-- warn: accounting has far fewer rows than usual: a silent source looks like an idle cluster; see trackside status.
SELECT cluster, source, message FROM source_warnings WHERE kind = 'silent';
