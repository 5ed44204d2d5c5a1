-- warn: accounting has far fewer rows than usual: a source that fell silent says nothing, and looks like an idle cluster; trackside status says more.
SELECT cluster, source, says FROM source_warnings WHERE kind = 'silent';
