-- One row is a GPU in an hour that it was busy for nearly all of, by its roll-up, with its means in that hour.
CREATE OR REPLACE VIEW rolled_busy_hours AS
SELECT
    cluster,                                                               -- cluster
    node,                                                                  -- node
    gpu,                                                                   -- GPU
    ts,                                                                    -- beginning of the hour
    MAX(mean) FILTER (metric = 'tensor_active') AS tensor_active,          -- share of the cycles with tensor pipes active
    MAX(mean) FILTER (metric = 'sm_active') AS sm_active,                  -- share of the cycles with multiprocessors active
    MAX(mean) FILTER (metric = 'sm_clock_hz') AS sm_clock_hz,              -- clock of the multiprocessors
    MAX(mean) FILTER (metric = 'power_w') AS power_w,                      -- power
    MAX(mean) FILTER (metric = 'temperature_c') AS temperature_c,          -- temperature
    MAX(mean) FILTER (metric = 'pcie_bytes_per_s') AS pcie_bytes_per_s,    -- bytes per second over PCIe
    MAX(mean) FILTER (metric = 'nvlink_bytes_per_s') AS nvlink_bytes_per_s -- bytes per second over NVLink
FROM gpu_hours
WHERE covered_s >= 3540
GROUP BY cluster, node, gpu, ts
HAVING MAX(active_s / covered_s) FILTER (metric = 'active') >= 0.95;
