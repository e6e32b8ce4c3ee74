"""Executes a pipeline: the run loop, its journal, its gates and the rollback."""
