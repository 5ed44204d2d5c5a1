-- One row is a health event of a cluster in a time that its node's hardware may slow down by: no information only (but of PCIe links), and no XID that programs cause.
SELECT node, ts, gpu, kind, code, device
FROM health_events
WHERE cluster = $cluster AND ts >= $since AND ts < $until
    AND (severity IN ('critical', 'warning') OR (kind = 'pcie' AND code IN ('link_width', 'link_generation')))
    AND (kind <> 'xid' OR class IS DISTINCT FROM 'APP')
    AND (
        kind IN ('throttle', 'ecc', 'row_remap', 'retired_pages', 'nvlink', 'pcie', 'ib', 'edac', 'gpu', 'gpu_health', 'xid')
        OR (kind = 'condition' AND regexp_matches(code, '(?i)gpu|nvlink|nvswitch|xid|pcie|thermal|infiniband|hardware'))
    )
ORDER BY node, ts, kind, code, gpu;
