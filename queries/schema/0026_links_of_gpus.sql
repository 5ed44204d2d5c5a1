-- How much GPUs exchange with their host and with each other: the greater of what is sent and what is received.
ALTER TABLE raw.gpu_samples ADD COLUMN pcie_bytes_per_s FLOAT;    -- PCIe throughput, the greater of both directions
ALTER TABLE raw.gpu_samples ADD COLUMN nvlink_bytes_per_s FLOAT;  -- NVLink throughput of all links, the greater of both directions
