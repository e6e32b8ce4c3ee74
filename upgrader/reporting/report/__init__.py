"""A run's reports for people and for CI systems, all made from its folded state."""
