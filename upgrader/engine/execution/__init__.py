"""Carries a pipeline out: what comes next, gates, rollback, and a stop in order."""
