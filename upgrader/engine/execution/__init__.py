"""Executes a pipeline: the next action, gates, rollback, and an orderly stop."""
