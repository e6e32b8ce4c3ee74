"""What tests and benchmarks share: real clusters, load, faults, kills, and fakes of the ports."""
