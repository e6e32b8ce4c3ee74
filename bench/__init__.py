"""Measurements on real local clusters, each one command; also what `make demo` and the end-to-end tests share."""
