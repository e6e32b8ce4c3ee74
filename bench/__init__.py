"""Measurements on real local clusters, each one command; and `make demo`."""
