"""The demonstration: a simulated cluster, loaded, computed and compared with what was simulated."""
