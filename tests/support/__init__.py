"""What tests share: warehouses, fakes, captures as text, servers of a test's own."""
