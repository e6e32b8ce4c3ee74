"""Planned programs read their flags and files, each in a pod that can do nothing else."""
